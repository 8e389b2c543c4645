import { expect } from 'chai';
import { openPages, type ViewValues } from '../../src/pages/pages.ts';
import { usePage } from '../support/chromium.ts';
import { CONSENT, levelChoices, SAMPLES, type Sample } from './sample-pages.ts';
import { useSamples } from './served-samples.ts';
import { fetchInEach, openForShowing, showEach } from './shown-pages.ts';

const ADDRESS = 'reports.example.com';
const LANGUAGES = ['en', 'de', 'fr', 'es', 'pt', 'ja'];

const PHONE = { width: 390, height: 800 };

/** In pixels from the top of the page, as it is first shown: of who asks, what for and as whom, and of the decisions. */
const BOTTOMS = `(() => {
  for (const details of document.querySelectorAll('details')) details.open = false;
  return ['h1, #client, #access, #account', '[value=approve], [value=deny]'].map((parts) =>
    [...document.querySelectorAll(parts)].map(
      (part) => part.getBoundingClientRect().bottom + scrollY,
    ),
  );
})()`;

const DAY = 86_400;

function consent(changes: Partial<ViewValues['consent']>): Sample {
  return (pages, ctx) => pages.render(ctx, 'consent', { ...CONSENT, ...changes });
}

const CASES: Record<string, Sample> = {
  'self-registered': consent({}),
  document: consent({ client: { name: 'Claude', kind: 'metadata-document', host: 'claude.ai' } }),
  'other-host': consent({
    client: { name: 'Claude', kind: 'metadata-document', host: 'claude.ai' },
    redirect: { destination: ADDRESS, kind: 'elsewhere', isOtherHost: true },
  }),
  'pre-registered': consent({ client: { name: 'Reporting Bot', kind: 'pre-registered' } }),
  elsewhere: consent({ redirect: { destination: ADDRESS, kind: 'elsewhere' } }),
  'every-level': consent({ levels: levelChoices('full') }),
  'longest-name': consent({
    client: { name: 'W'.repeat(80), kind: 'self-registered' },
    levels: levelChoices('full'),
  }),
  'no-box': consent({ stay: undefined }),
  renewable: consent({ stay: undefined, renewableFor: 90 * DAY }),
  unticked: consent({ stay: { checked: false, lifetime: 90 * DAY } }),
  changed: consent({ changed: 'levels' }),
  'no-choice': consent({
    levels: levelChoices('full').map((choice) => ({ ...choice, selected: false })),
  }),
  'records-some': consent({ levels: levelChoices('full'), recordsUse: false }),
  'two-step-ups': consent({
    levels: levelChoices('full').map((choice) => ({ ...choice, signsIn: true as const })),
    stepUp: 'class',
  }),
};

describe('the consent page in a browser', () => {
  const samples = useSamples({ ...SAMPLES, ...CASES });
  const page = usePage();
  before(() => openForShowing(page(), `${samples().url}/home`));
  const open = async (name: string) =>
    showEach(page(), await fetchInEach(samples().url, name, ['en']), 'null');
  /** Non-breaking spaces become spaces. */
  const text = async (selector: string) =>
    (await page().locator(selector).innerText()).replaceAll('\u00A0', ' ');
  /** Resolves when the form is posted. The response has no content, so that the page stays. */
  async function press(name: string | RegExp): Promise<void> {
    const posting = page().waitForResponse((response) => response.request().method() === 'POST');
    await page().getByRole('button', { name, exact: true }).click();
    await posting;
  }

  describe('its content', () => {
    it('the consent page needs two requests and at most 40 kB in every language, with the longest names', async () => {
      for (const language of LANGUAGES) {
        const load = async (path: string) => (await fetch(samples().url + path)).arrayBuffer();
        const sent = await load(`/consent-hostile?ui_locales=${language}`);
        const html = new TextDecoder().decode(sent);
        const needed = [...html.matchAll(/(?:<img[^>]* src|rel="stylesheet" href)="([^"]+)"/g)];
        expect(needed).to.have.length(1);
        const style = await load(String(needed[0]?.[1]));
        expect(sent.byteLength + style.byteLength, language).to.be.within(10_000, 40_000);
      }
    });

    it('a dynamically registered client is shown as not verified, and its name as a claim', async () => {
      await open('self-registered');
      expect(await text('#client')).to.match(
        /Claude Code\s+Name chosen by the app, not verified\./,
      );
      expect(await text('#details')).to.include('chose its own name');
    });

    it('a client with a metadata document is identified by its host', async () => {
      await open('document');
      expect(await text('#client')).to.match(
        /^App\s+claude\.ai\s+Calls itself Claude \(not verified\)/,
      );
      expect(await text('h1')).to.equal('Connect Claude from claude.ai to Club numbers?');
    });

    it('a pre-registered client is shown as added by an administrator', async () => {
      await open('pre-registered');
      expect(await text('#client')).to.match(/Reporting Bot\s+Added by an administrator/);
    });

    it('the page shows the destination of the redirect, with a note and no warning if it is on this computer', async () => {
      await open('self-registered');
      expect(await text('#redirect')).to.include('An app on this device, port 53682');
      expect(await text('#local-note')).to.include('Deny if you started this on another device');
      expect(await text('#details'))
        .to.include('localhost:53682')
        .and.include('Any program on this device could receive this access');
      expect(await page().locator('.notice').count()).to.equal(0);
    });

    it('the page warns if the redirect leads to another host than that of the metadata document', async () => {
      await open('other-host');
      expect(await text('#other-host')).to.include('This address isn’t part of claude.ai.');
    });

    it('the first screen of a phone shows who asks, what for and as whom, and the second Approve and Deny, in every language', async () => {
      const size = page().viewportSize() ?? { width: 1280, height: 720 };
      await page().setViewportSize(PHONE);
      const names = Object.keys(SAMPLES).filter((name) => /^consent(?!-hostile)/.test(name));
      for (const name of [...names, 'self-registered', 'longest-name']) {
        const pages = await fetchInEach(samples().url, name, LANGUAGES);
        const shown = await showEach<number[][]>(page(), pages, BOTTOMS);
        expect(shown.map(({ language }) => language)).to.deep.equal(LANGUAGES);
        for (const { language, value } of shown)
          for (const [screen, bottoms] of value.entries()) {
            expect(bottoms).to.have.length(screen === 0 ? 4 : 2);
            const last = Math.max(...bottoms);
            expect(last, `${name} in ${language}`).to.be.below((screen + 1) * PHONE.height);
          }
      }
      await page().setViewportSize(size);
    });

    it('a screen reader gets the app, the preselected access, the account, the destination, the levels, the duration and the decision in this order', async () => {
      await open('self-registered');
      const tree = await page().locator('main').ariaSnapshot();
      const told = [
        'heading "Connect Claude Code to Club numbers?"',
        'Name chosen by the app, not verified.',
        'Preselected. You can change it below.',
        'Ada Lovelace',
        'An app on this device, port 53682',
        'group "What can the app see?"',
        'radio "Totals only"',
        'radio "Totals and names" [checked]',
        'checkbox "Stay connected" [checked]',
        'button "Deny"',
        'button "Approve"',
      ];
      const places = told.map((part) => tree.indexOf(part));
      expect(places, tree).to.not.include(-1);
      expect(places).to.deep.equal(places.toSorted((first, second) => first - second));
    });

    it('the page names the access that is preselected, also where no access is', async () => {
      await open('self-registered');
      expect(await text('#access')).to.match(/^Access\s+Totals and names\s+Preselected/);
      await open('no-choice');
      expect(await text('#access')).to.match(/^Access\s+You choose it below$/);
      await open('consent-raise');
      expect(await text('#access')).to.match(/^New access\s+Names and contact details/);
    });

    it('the alert after a sign-in that was not enough names the access that needs it, if only one does', async () => {
      await open('consent-step-up');
      expect(await text('#step-up')).to.include('“Everything” requires a stronger sign-in');
      await open('two-step-ups');
      expect(await text('#step-up')).to.include('The access you chose requires');
    });

    it('a level says that its uses are recorded only if not those of every level are', async () => {
      const recorded = 'Each use of this access is recorded';
      await open('consent-every-level');
      expect(await text('main'))
        .to.include('Each use of a tool is recorded for administrators.')
        .and.not.include(recorded);
      await open('records-some');
      expect(await text('main')).to.include(recorded);
    });

    it('the page has no such warning for a destination elsewhere', async () => {
      await open('elsewhere');
      expect(await text('#redirect'))
        .to.include(ADDRESS)
        .and.include('Your administrator allows this address.');
      expect(await page().locator('#local-note').count()).to.equal(0);
    });

    it('the page shows the connector, its link, and the account', async () => {
      await open('self-registered');
      expect(await text('#connector'))
        .to.include(CONSENT.connector.name)
        .and.include(CONSENT.connector.link);
      expect(await text('#account'))
        .to.include('Ada Lovelace')
        .and.include('ada@example.com, with your company account');
    });

    it('every level describes what the app sees, what stays hidden, and an example', async () => {
      await open('every-level');
      const { t } = openPages({ productName: 'Gatehouse' }).translator(['en']);
      for (const { level } of levelChoices('full')) {
        const [title = '', sees = '', ...more] = ['title', 'sees', 'hidden', 'example'].map(
          (part) => t(`levels.${level}.${part}`),
        );
        const choice = page().getByRole('radio', { name: title, exact: true });
        expect(await choice.getAttribute('value')).to.equal(level);
        const id = await choice.getAttribute('aria-describedby');
        expect(await text(`#${id}`)).to.include(sees);
        const details = await text(`.level:has(#${id}) .more`);
        for (const fact of more) expect(details).to.include(fact);
      }
      const group = page().getByRole('group', { name: 'What can the app see?' });
      expect(await group.getByRole('radio').count()).to.equal(4);
    });

    it('the page shows the duration, with and without the box to stay connected', async () => {
      await open('self-registered');
      expect(await text('#duration'))
        .to.include('up to 90 days')
        .and.include('disconnects after 1 hour')
        .and.include('You can disconnect it at any time at auth.example.com/account.');
      await open('no-box');
      expect(await text('#duration'))
        .to.include('Disconnects after 1 hour')
        .and.not.include('90 days');
      expect(await text('#details')).to.include(
        `You can disconnect the app at any time at ${CONSENT.accountPage}`,
      );
      await open('renewable');
      expect(await text('#duration'))
        .to.include('up to 90 days')
        .and.not.include('1 hour');
      expect(await page().getByRole('checkbox').count()).to.equal(0);
    });

    it('the page has an alert only if its content changed', async () => {
      await open('changed');
      expect(await page().getByRole('alert').innerText()).to.include(
        'The access you can choose changed after you opened this page',
      );
      expect(await page().title()).to.include('This page changed');
      await open('self-registered');
      expect(await page().getByRole('alert').count()).to.equal(0);
    });
  });

  describe('the page without access', () => {
    it('the page shows whom to ask for access, and the account', async () => {
      await open('no-access');
      expect(await text('h1')).to.equal('You don’t have access to Club numbers');
      expect(await text('main')).to.include(
        'To get access, contact it-desk@example.com, or use another account.',
      );
      expect(await text('#account')).to.include('Alan Turing');
    });

    it('the page explains that the connect link is used up', async () => {
      await open('used-up');
      expect(await text('h1')).to.equal('The connect link for Club numbers is used up');
      expect(await text('main')).to.include('for a new connect link');
    });
  });

  describe('the decision', () => {
    const posted = () => samples().posts.map((post) => Object.fromEntries(post));

    it('Approve posts the preselected level and box', async () => {
      await open('self-registered');
      await press('Approve');
      expect(posted()).to.deep.equal([
        { token: 'form-token', level: 'operations', stay: 'on', decision: 'approve' },
      ]);
    });

    it('Approve posts the selected level, and no box if it is not ticked', async () => {
      await open('every-level');
      await page().getByRole('radio', { name: 'Totals only' }).check();
      await page().getByRole('checkbox', { name: 'Stay connected' }).uncheck();
      await press('Approve');
      expect(posted()).to.deep.equal([
        { token: 'form-token', level: 'analytics', decision: 'approve' },
      ]);
    });

    it('a click anywhere on a level selects it', async () => {
      await open('every-level');
      await page()
        .locator('.level')
        .first()
        .click({ position: { x: 200, y: 70 } });
      expect(await page().getByRole('radio', { name: 'Totals only' }).isChecked()).to.equal(true);
    });

    it('a box that is not ticked at first is not posted', async () => {
      await open('unticked');
      await press('Approve');
      expect(posted()[0]).not.to.have.property('stay');
    });

    it('Deny and “Use another account” post their decision, also on the page without access', async () => {
      await open('self-registered');
      await press('Deny');
      await press('Use another account');
      await open('no-access');
      await press('Go back to the app');
      await press('Use another account');
      const decisions = posted().map((post) => post.decision);
      expect(decisions).to.deep.equal(['deny', 'switch', 'deny', 'switch']);
    });

    it('Enter in a field posts no decision', async () => {
      await open('self-registered');
      await page().getByRole('radio', { name: 'Totals and names' }).press('Enter');
      await page().getByRole('checkbox').press('Enter');
      await press('Deny');
      expect(posted().map((post) => post.decision)).to.deep.equal(['deny']);
    });

    it('the development sign-in posts the selected person', async () => {
      await open('development-sign-in');
      expect(await text('#development')).to.include('Development only');
      await press(/Grace Hopper/);
      expect(posted()).to.deep.equal([{ person: 'grace' }]);
    });
  });
});
