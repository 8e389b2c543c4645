// The console over HTTP: who gets in and for how long, what its forms refuse, and what administrators do with connectors.
import { expect } from 'chai';
import {
  type Browser,
  describePage,
  openBrowser,
  type Page,
  type Person,
  requirePage,
} from '../support/browser.ts';
import { createConnector, readAudit, showConnector } from '../support/administrator.ts';
import { moveClock } from '../support/clock.ts';
import { startSystem, type System, useSystem } from '../support/system.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;

describe('the console', function () {
  this.timeout(30_000);
  const system = useSystem();

  const origins = () => [...system().origins, system().management];
  const at = (path: string) => `${system().management}/console${path}`;

  async function open(browser: Browser, path = '', person: Person = 'ada'): Promise<Page> {
    const page = requirePage(await browser.visit(at(path)));
    if (!page.forms.some(({ controls }) => controls.some(({ name }) => name === 'person')))
      return page;
    return requirePage(await browser.submit(page, { person }));
  }

  async function signIn(path = '/connectors', person: Person = 'ada') {
    const browser = openBrowser(origins());
    return { browser, page: await open(browser, path, person) };
  }

  function tokenIn(page: Page): string {
    const controls = page.forms.flatMap((form) => form.controls);
    return String(controls.find(({ name }) => name === 'token')?.value);
  }

  async function send(browser: Browser, page: Page, path: string, fields: Record<string, string>) {
    return requirePage(await browser.post(page, new URL(at(path)), new URLSearchParams(fields)));
  }

  /** What is to be copied, as text. */
  function samplesIn({ html }: Page): string[] {
    const samples = [...html.matchAll(/<pre [^>]*><bdi>([^<]*)<\/bdi>/g)];
    return samples.map(([, text = '']) => text.replaceAll('&#34;', '"'));
  }

  const audited = async (event: string) =>
    (await readAudit(system())).filter((item) => item.event === event);

  describe('lets in', () => {
    it('CSL-01 an administrator, through the identity provider, to the page they asked for', async () => {
      const { id } = await createConnector(system(), { name: 'Asked for' });
      const { page } = await signIn(`/connectors/${id}`);
      expect(page.status, describePage(page)).to.equal(200);
      expect(page.url.href).to.equal(at(`/connectors/${id}`));
      expect(page.html).to.include('Asked for').and.include('Ada Lovelace');
      const [item] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ outcome: 'done', by: item?.account });
    });

    it('whoever knows no more than the address of the host', async () => {
      const browser = openBrowser(origins());
      const people = requirePage(await browser.visit(system().management));
      const page = requirePage(await browser.submit(people, { person: 'ada' }));
      expect(page.url.href).to.equal(at('/connectors'));
    });

    it('CSL-01 nobody else, and says so', async () => {
      const { browser, page } = await signIn('', 'grace');
      expect(page.status).to.equal(403);
      expect(page.html).to.include('not an administrator').and.not.include('name="token"');
      expect(browser.jar.map(({ name }) => name)).not.to.include('gatehouse-console');
      const [item] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ outcome: 'refused' });
      const again = requirePage(await browser.visit(at('/sign-in')));
      const inside = requirePage(await browser.submit(again, { person: 'ada' }));
      expect(inside.status, describePage(inside)).to.equal(200);
    });

    it('CSL-11 nobody with the management key', async () => {
      const response = await fetch(at('/connectors'), {
        headers: { authorization: `Bearer ${system().managementKey}` },
        redirect: 'manual',
      });
      expect(response.status).to.equal(303);
      expect(response.headers.get('location')).to.match(/^http:\/\/localhost:\d+\/auth/);
    });

    it('CSL-03 nobody with a cookie of another form', async () => {
      for (const value of ['', 'x', 'A'.repeat(43), '../console-session:x']) {
        const response = await fetch(at('/connectors'), {
          headers: { cookie: `gatehouse-console=${value}` },
          redirect: 'manual',
        });
        expect(response.status, value).to.equal(303);
      }
    });

    it('CSL-11 nobody to the API with the session of the console', async () => {
      const { browser } = await signIn();
      const page = await browser.visit(`${system().management}/api/v1/connectors`);
      expect(requirePage(page).status).to.equal(401);
    });

    it('CSL-04 an administrator for half an hour without a click', async () => {
      const { browser } = await signIn();
      moveClock(25 * MINUTE);
      expect((await open(browser, '/connectors')).url.pathname).to.equal('/console/connectors');
      moveClock(25 * MINUTE);
      expect(await isSignedIn(browser)).to.equal(true);
      moveClock(30 * MINUTE + 1);
      expect(await isSignedIn(browser)).to.equal(false);
    });

    it('CSL-04 an administrator for eight hours at most', async () => {
      const { browser } = await signIn();
      for (let passed = 20 * MINUTE; passed < 8 * HOUR; passed += 20 * MINUTE) {
        moveClock(20 * MINUTE);
        expect(await isSignedIn(browser), `after ${passed} s`).to.equal(true);
      }
      moveClock(20 * MINUTE);
      expect(await isSignedIn(browser)).to.equal(false);
    });

    async function isSignedIn({ jar }: Browser): Promise<boolean> {
      const cookie = jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const response = await fetch(at('/connectors'), { headers: { cookie }, redirect: 'manual' });
      await response.body?.cancel();
      return response.status === 200;
    }

    it('CSL-04 nobody who signed out, also with a copy of the cookie', async () => {
      const { browser, page } = await signIn();
      const copy = browser.jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const out = await send(browser, page, '/sign-out', { token: tokenIn(page) });
      expect(out.html).to.include('You are signed out');
      const headers = { cookie: copy };
      const response = await fetch(at('/connectors'), { headers, redirect: 'manual' });
      expect(response.status).to.equal(303);
    });

    it('CSL-01 nobody whose account was disabled meanwhile', async () => {
      const own = await startSystem();
      try {
        const browser = openBrowser([...own.origins, own.management]);
        const page = requirePage(await browser.visit(`${own.management}/console/connectors`));
        await browser.submit(page, { person: 'ada' });
        expect(await isLetIn(own, browser)).to.equal(true);
        const [item] = (await readAudit(own)).filter(({ event }) => event === 'console_sign_in');
        await fetch(`${own.management}/api/v1/accounts/${item?.account}/disable`, {
          method: 'POST',
          headers: { authorization: `Bearer ${own.managementKey}` },
        });
        expect(await isLetIn(own, browser)).to.equal(false);
      } finally {
        await own.stop();
      }
    });

    async function isLetIn(own: System, { jar }: Browser): Promise<boolean> {
      const cookie = jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const address = `${own.management}/console/connectors`;
      const response = await fetch(address, { headers: { cookie }, redirect: 'manual' });
      return response.status === 200;
    }
  });

  describe('refuses', () => {
    it('CSL-02 an answer of the identity provider in another browser, and a second time', async () => {
      const [mine, theirs] = [openBrowser(origins()), openBrowser(origins())];
      const page = requirePage(await mine.visit(at('/connectors')));
      await mine.submit(page, { person: 'ada' });
      const callback = mine.visited.find(({ pathname }) => pathname === '/console/callback');
      if (!callback) throw new Error('the identity provider sent nobody back');
      for (const browser of [theirs, mine]) {
        const { status, html } = requirePage(await browser.visit(callback));
        expect(status).to.equal(400);
        expect(html).to.include('This sign-in is over');
      }
      expect(theirs.jar.map(({ name }) => name)).not.to.include('gatehouse-console');
    });

    it('a sign-in that was stopped, and says how to start again', async () => {
      const browser = openBrowser(origins());
      await browser.visit(at('/connectors'));
      const asked = browser.visited.find(({ pathname }) => pathname === '/auth');
      const answer = new URL(at('/callback'));
      answer.searchParams.set('error', 'access_denied');
      answer.searchParams.set('iss', asked?.origin ?? '');
      answer.searchParams.set('state', asked?.searchParams.get('state') ?? '');
      const page = requirePage(await browser.visit(answer));
      expect(page.status).to.equal(400);
      expect(page.html)
        .to.include('The sign-in was not completed')
        .and.include('<a href="/console">Open the console</a>')
        .and.not.match(/the app\b/);
    });

    it('CSL-05 forms without the token, with another one, and from elsewhere; nothing is made', async () => {
      const { browser, page } = await signIn();
      const { page: other } = await signIn();
      const fields = { name: 'Never made', level: 'full', once: 'A'.repeat(43) };
      for (const token of ['', 'x', tokenIn(other)]) {
        const answer = await send(browser, page, '/connectors', { ...fields, token });
        expect(answer.status, token).to.equal(403);
        expect(answer.html).to.include('That did not come from this page');
      }
      const cookie = browser.jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const body = new URLSearchParams({ ...fields, token: tokenIn(page) });
      for (const headers of [
        { origin: 'https://evil.example' },
        { origin: 'null' },
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'same-site' },
      ] as Record<string, string>[]) {
        const response = await fetch(at('/connectors'), {
          method: 'POST',
          headers: { cookie, ...headers },
          body,
        });
        expect(response.status, JSON.stringify(headers)).to.equal(403);
      }
      const { html } = await open(browser, '/connectors');
      expect(html).not.to.include('Never made');
    });

    it('what is unknown, and what a form cannot say, with a page about it', async () => {
      const { browser, page } = await signIn();
      const missing = await open(browser, '/connectors/AAAAAAAAAAAAAAAAAAAAAA');
      expect(missing.status).to.equal(404);
      expect(missing.html)
        .to.include('There is nothing here')
        .and.include('Open the console')
        .and.not.include('paste your connect link');
      const token = tokenIn(page);
      const { id } = await createConnector(system());
      const kept = await send(browser, page, `/connectors/${id}/delete`, { token });
      expect(kept.status).to.equal(409);
      expect(kept.html).to.include('It still works');
      const answer = await send(browser, page, '/connectors', { name: 'x', level: 'full', token });
      expect(answer.status).to.equal(400);
    });
  });

  describe('for connectors', () => {
    it('CSL-10 creates one with what was entered, and says how to connect with it', async () => {
      const { browser, page } = await signIn();
      const made = requirePage(
        await browser.submit(page, { name: 'Ops team', level: 'admin', maxUses: '5', days: '30' }),
      );
      expect(made.url.pathname).to.match(/^\/console\/connectors\/[A-Za-z0-9]{22}$/);
      const id = made.url.pathname.slice(-22);
      const connector = await showConnector(system(), id);
      expect(connector).to.include({ name: 'Ops team', level: 'admin', maxUses: 5 });
      expect(connector['expiresAt']).to.be.a('string');
      const { link } = connector;
      for (const text of [
        link,
        `claude mcp add --transport http ops-team ${link}`,
        '.vscode/mcp.json',
        '.cursor/mcp.json',
        'mcp-remote',
        '5 of 5 uses left',
        `${system().auth}/account`,
      ])
        expect(made.html).to.include(text);
      const [item] = (await audited('connector_created')).slice(-1);
      const [entry] = (await audited('console_sign_in')).slice(-1);
      expect(item).to.include({ connector: id, by: entry?.account });
    });

    it('shows files as they are to be saved, line by line', async () => {
      const { id, link } = await createConnector(system(), { name: 'Ops "team"' });
      const { page } = await signIn(`/connectors/${id}`);
      const [, , vsCode, cursor, bridge] = samplesIn(page);
      const server = { type: 'http', url: link };
      expect(JSON.parse(vsCode ?? '')).to.deep.equal({ servers: { 'ops-team': server } });
      expect(JSON.parse(cursor ?? '')).to.have.nested.property('mcpServers.ops-team.url', link);
      expect(JSON.parse(bridge ?? '').mcpServers['ops-team'].args).to.include(link);
      expect(vsCode?.split('\n')).to.include('  "servers": {');
    });

    it('calls a link in commands and files what its name says, in letters of every shell', async () => {
      const { id, link } = await createConnector(system(), { name: 'École & Büro' });
      const { page } = await signIn(`/connectors/${id}`);
      expect(page.html).to.include(`claude mcp add --transport http ecole-buro ${link}`);
    });

    it('CSL-07 makes one of a form that is sent twice', async () => {
      const { browser, page } = await signIn();
      const before = (await audited('connector_created')).length;
      for (const _ of [1, 2]) await browser.submit(page, { name: 'Once', level: 'analytics' });
      expect((await audited('connector_created')).length).to.equal(before + 1);
    });

    it('keeps what was entered when something is wrong with it, and says what', async () => {
      const { browser, page } = await signIn();
      const wrong = [
        [{ name: ' ', level: 'full' }, 'The name has to have'],
        [{ name: 'Kept', level: 'full', maxUses: '0' }, 'The number of uses'],
        [{ name: 'Kept', level: 'full', maxUses: 'x' }, 'The number of uses'],
        [
          { name: 'Kept', level: 'full', days: '-1' },
          'The number of days has to be a whole number from 1',
        ],
        [{ name: 'Kept', level: 'root' }, 'Please check'],
      ] as const;
      for (const [fields, text] of wrong) {
        const answer = requirePage(await browser.submit(page, fields));
        expect(answer.status, JSON.stringify(fields)).to.equal(400);
        expect(answer.html).to.include(text);
        if (fields.name === 'Kept') expect(answer.html).to.include('value="Kept"');
      }
    });

    it('CSL-10 revokes and then deletes one, each recorded with who did it', async () => {
      const { id } = await createConnector(system(), { name: 'To be ended' });
      const { browser, page } = await signIn(`/connectors/${id}`);
      const token = tokenIn(page);
      const revoked = await send(browser, page, `/connectors/${id}/revoke`, { token });
      expect(revoked.html).to.include('Revoked').and.not.include('claude mcp add');
      expect((await showConnector(system(), id)).state).to.equal('revoked');
      const gone = await send(browser, revoked, `/connectors/${id}/delete`, { token });
      expect(gone.url.pathname).to.equal('/console/connectors');
      expect(gone.html).to.include('Deleted.').and.not.include('To be ended');
      for (const event of ['connector_revoked', 'connector_deleted']) {
        const [item] = (await audited(event)).slice(-1);
        expect(item).to.include({ connector: id });
        expect(item?.['by']).to.match(/^[\w-]{27}$/);
      }
    });
  });

  it('CSL-06 sends pages that nobody may keep, frame, open from elsewhere, or use to send forms away', async () => {
    const { page } = await signIn();
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).to.include("frame-ancestors 'none'").and.include("form-action 'self'");
    expect(policy).not.to.include('script-src');
    expect(page.headers.get('cross-origin-opener-policy')).to.equal('same-origin');
    expect(page.headers.get('cache-control')).to.equal('no-store');
    expect(page.html).not.to.include(system().managementKey).and.not.include('<script');
  });
});

describe('without administrators in the settings', () => {
  const system = useSystem({ file: { management: undefined } });

  it('CSL-01 there is no console', async () => {
    for (const path of ['', '/connectors', '/sign-in', '/callback']) {
      const { status } = await fetch(`${system().management}/console${path}`);
      expect(status, path).to.equal(404);
    }
  });
});
