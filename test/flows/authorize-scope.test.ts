// RFC 6749 section 3.3.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { requireExternalRedirect, type Page, type Person } from '../support/browser.ts';
import { openConsent as reachConsent } from '../support/connection.ts';
import { fillForm } from '../support/html-forms.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { levelsUpTo, type Level } from '../../src/permission-levels.ts';
import { DEFAULT_LEVELS, LEVELS } from '../support/levels.ts';
import { useSystem, type System } from '../support/system.ts';

type Asked = { scope?: string; level: Level; person?: Person };

async function openConsent(system: System, { scope, level, person }: Asked) {
  const options = { parameters: { scope }, ...(person ? { person } : {}) };
  const opened = await reachConsent(system, await createConnector(system, { level }), options);
  const approve = async (choices: { level?: Level; stay?: 'on' | false } = {}) => {
    const step = await opened.decide({ decision: 'approve', ...choices });
    return opened.redeem(requireExternalRedirect(step));
  };
  return { ...opened, approve };
}

function controls(page: Page, name: string) {
  return page.forms.flatMap((form) => form.controls.filter((control) => control.name === name));
}

describe('The granted scope', () => {
  const system = useSystem();

  const cases: [Asked, Level][] = [
    [{ level: 'admin' }, 'admin'],
    [{ level: 'admin', scope: '' }, 'admin'],
    [{ level: 'admin', scope: 'claudeai' }, 'admin'],
    [{ level: 'admin', scope: 'openid profile email' }, 'admin'],
    [{ level: 'admin', scope: 'offline_access' }, 'admin'],
    [{ level: 'admin', scope: 'analytics' }, 'analytics'],
    [{ level: 'admin', scope: 'operations analytics' }, 'operations'],
    [{ level: 'admin', scope: 'analytics admin openid' }, 'admin'],
    [{ level: 'operations', scope: 'full' }, 'operations'],
    [{ level: 'analytics', scope: LEVELS.join(' ') }, 'analytics'],
    [{ level: 'full', scope: 'FULL' }, 'full'],
    [{ level: 'full', person: 'grace' }, 'operations'],
    [{ level: 'full', scope: 'full', person: 'grace' }, 'operations'],
    [{ level: 'full', scope: 'analytics', person: 'grace' }, 'analytics'],
  ];
  for (const [asked, most] of cases) {
    it(`AUD-09 the consent page offers levels up to ${most} for ${JSON.stringify(asked)}`, async () => {
      const { page, approve } = await openConsent(system(), asked);
      const offered = controls(page, 'level').map(({ value }) => value);
      expect(offered).to.deep.equal(levelsUpTo(DEFAULT_LEVELS, most));
      const { body } = await approve({ level: most });
      expect(body.scope).to.equal(`${most} offline_access`);
    });
  }

  for (const level of LEVELS) {
    it(`RSV-07 the granted level is the one the person picks: ${level}`, async () => {
      const { link, server, client, approve } = await openConsent(system(), { level: 'full' });
      const { body } = await approve({ level });
      expect(body.scope).to.equal(`${level} offline_access`);
      const tool = await callTool(link, body.access_token, 'payment_details', { memberId: 'x' });
      expect(tool.status).to.equal(level === 'full' ? 200 : 403);
      const wider = await refresh(server, client, body.refresh_token, { scope: 'full' });
      expect(wider.body.scope).to.equal(`${level} offline_access`);
    });
  }

  it('the token response states the scope, and no member of it is empty', async () => {
    const { approve } = await openConsent(system(), { level: 'operations' });
    const { headers, body } = await approve();
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(headers.get('content-type')).to.match(/^application\/json/);
    const { access_token: access, refresh_token: token, ...rest } = body;
    expect(access).to.be.a('string').with.length.above(0);
    expect(token).to.be.a('string').with.length.above(0);
    expect(rest).to.deep.equal({
      token_type: 'Bearer',
      expires_in: 3600,
      scope: 'operations offline_access',
    });
  });
});

describe('The stay connected box', () => {
  const system = useSystem();

  for (const scope of [undefined, 'operations', 'operations offline_access']) {
    it(`the box is ticked at first, and the person's choice decides whether there is a refresh token (${scope})`, async () => {
      const ticked = await openConsent(system(), { level: 'operations', scope });
      expect(controls(ticked.page, 'stay')).to.have.length(1);
      expect(controls(ticked.page, 'stay')[0]?.checked).to.equal(true);
      expect((await ticked.approve()).body.refresh_token).to.be.a('string');

      const unticked = await openConsent(system(), { level: 'operations', scope });
      const { body } = await unticked.approve({ stay: false });
      expect(body).to.not.have.property('refresh_token');
      expect(body.scope).to.equal('operations');
      expect(await isAccepted(unticked.link, body.access_token)).to.equal(true);
    });
  }
});

describe('The setting consent.stayConnected: on-request', () => {
  const system = useSystem({ file: { consent: { stayConnected: 'on-request' } } });

  for (const [scope, stays] of [
    [undefined, true],
    ['offline_access', true],
    ['operations offline_access', true],
    ['operations', false],
    ['claudeai', false],
  ] as const) {
    it(`the refresh token is ${stays ? 'granted' : 'withheld'} for the scope ${scope}, and the page has no box`, async () => {
      const { page, approve } = await openConsent(system(), { level: 'operations', scope });
      const { body } = await approve();
      expect(body.refresh_token !== undefined).to.equal(stays);
      expect(body.scope).to.equal(stays ? 'operations offline_access' : 'operations');
      expect(controls(page, 'stay')).to.have.length(0);
      const length = stays ? /up to 90\sdays/ : /Disconnects after 1\shour/;
      expect(page.html).to.match(length).and.not.include('Stay connected');
    });
  }

  it('CON-07 a form field cannot add a refresh token that the client did not request', async () => {
    const asked = { level: 'operations', scope: 'operations' } as const;
    const { page, browser, redeem: redeemAt } = await openConsent(system(), asked);
    const [form] = page.forms.filter(({ method }) => method === 'POST').slice(-1);
    if (!form) throw new Error('the page has no form');
    const body = fillForm(form, { decision: 'approve' });
    body.set('stay', 'on');
    const callback = requireExternalRedirect(await browser.post(page, form.action, body));
    const { status, body: given } = await redeemAt(callback);
    expect(status).to.equal(200);
    expect(given.scope).to.equal('operations');
    expect(given).to.not.have.property('refresh_token');
  });
});
