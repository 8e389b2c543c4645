import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  createConnector,
  readAudit,
  showConnector,
  showGrant,
  type ConnectorOptions,
} from '../support/management-api.ts';
import {
  type Browser,
  describePage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { openConsent as reachConsent } from '../support/connection.ts';
import type { FormValues } from '../support/html-forms.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh, type TokenResponse } from '../support/oauth.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';

const ROUNDS = 2;
const DENY: FormValues = { decision: 'deny' };

function approve(level: string, stay = true): FormValues {
  return { decision: 'approve', level, stay: stay ? 'on' : false };
}

/** One browser for each system, in which the person signs in once. */
const browsers = new Map<System, Browser>();

function browserOf(system: System): Browser {
  const browser = browsers.get(system) ?? openBrowser(system.origins);
  browsers.set(system, browser);
  return browser;
}

async function openConsent(
  system: System,
  wanted: ConnectorOptions = {},
  browser = browserOf(system),
) {
  const connector = await createConnector(system, { level: 'full', ...wanted });
  const opened = await reachConsent(system, connector, { as: { browser } });
  const { server, client } = opened;
  return {
    ...opened,
    connector,
    refresh: ({ body }: TokenResponse) => refresh(server, client, body.refresh_token),
  };
}

function grantOf({ body }: TokenResponse): string {
  return String(decodeJwt(String(body.access_token)).grant_id);
}

function expectDenied(step: Step, state?: string): void {
  if (step.kind === 'page') {
    expect(step.html, describePage(step)).to.match(/You(’ve)? denied this/);
    return;
  }
  const { searchParams } = step.url;
  expect(searchParams.get('error')).to.equal('access_denied');
  expect(searchParams.has('code')).to.equal(false);
  if (state !== undefined) expect(searchParams.get('state')).to.equal(state);
}

const TITLES: Record<string, string> = {
  analytics: 'Totals only',
  operations: 'Totals and names',
  admin: 'Names and contact details',
  full: 'Everything',
};

/** Expects a page that shows the decision, not a redirect to the app. */
function expectApproved(step: Step, level: string): void {
  const page = requirePage(step);
  expect(page.html, describePage(page)).to.include('You’ve approved this');
  expect(page.html).to.include(`>${TITLES[level]}<`);
}

describe('A consent page that is submitted twice', () => {
  const system = useSystem();

  it('CON-18 denying after approving invalidates the code and tells the app', async () => {
    const { decide, redeem: exchange, state, again, browser } = await openConsent(system());
    const callback = requireExternalRedirect(await decide(approve('full')));
    const denied = await decide(DENY);
    requireExternalRedirect(denied);
    expectDenied(denied, state);
    const { status, body } = await exchange(callback);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
    const repeated = await decide(DENY);
    expect(requireExternalRedirect(repeated).href).to.equal(requireExternalRedirect(denied).href);
    // The person is still signed in.
    expect(requirePage(await browser.visit(again())).html).to.include('Ada Lovelace');
  });

  it('CON-18 denying after the code exchange ends the grant and its tokens', async () => {
    const opened = await openConsent(system());
    const { link, decide } = opened;
    const tokens = await opened.redeem(requireExternalRedirect(await decide(approve('full'))));
    expect(await isAccepted(link, tokens.body.access_token)).to.equal(true);
    const page = requirePage(await decide(DENY));
    expect(page.html).to.include('App disconnected');
    expect(await isAccepted(link, tokens.body.access_token)).to.equal(false);
    expect((await opened.refresh(tokens)).body.error).to.equal('invalid_grant');
    const grantId = grantOf(tokens);
    const grant = await showGrant(system(), grantId);
    expect([grant.state, grant.reason]).to.deep.equal(['ended', 'denied']);
    const ended = (await readAudit(system())).filter(
      (item) => item.grantId === grantId && item.event !== 'call',
    );
    expect(ended.map(({ event, reason }) => [event, reason])).to.deep.equal([
      ['consent_approved', undefined],
      ['grant_ended', 'denied'],
    ]);
  });

  it('CON-18 denying after approving releases the use of the connector', async () => {
    const { connector, decide } = await openConsent(system(), { maxUses: 1 });
    requireExternalRedirect(await decide(approve('full')));
    expect((await showConnector(system(), connector.id)).state).to.equal('used-up');
    await decide(DENY);
    const { state, uses } = await showConnector(system(), connector.id);
    expect([state, uses]).to.deep.equal(['active', 0]);
  });

  it('CON-18 approving a lower level after approving makes the code one for the lower level', async () => {
    const opened = await openConsent(system());
    const { link, decide } = opened;
    const callback = requireExternalRedirect(await decide(approve('full')));
    expectApproved(await decide(approve('analytics')), 'analytics');
    const tokens = await opened.redeem(callback);
    expect(tokens.body.scope).to.equal('analytics offline_access');
    expect((await callTool(link, tokens.body.access_token, 'find_members')).status).to.equal(403);
    expect((await opened.refresh(tokens)).body.scope).to.equal('analytics offline_access');
  });

  it('CON-18 approving a lower level after the code exchange lowers the level of the grant', async () => {
    const opened = await openConsent(system());
    const { link, decide } = opened;
    const tokens = await opened.redeem(requireExternalRedirect(await decide(approve('full'))));
    expectApproved(await decide(approve('operations')), 'operations');
    expect(await isAccepted(link, tokens.body.access_token)).to.equal(false);
    const refreshed = await opened.refresh(tokens);
    expect(refreshed.body.scope).to.equal('operations offline_access');
    expect(await isAccepted(link, refreshed.body.access_token)).to.equal(true);
    const { level } = await showGrant(system(), grantOf(tokens));
    expect(level).to.equal('operations');
    const events = (await readAudit(system())).filter(
      (item) => item.grantId === grantOf(tokens) && item.event !== 'call',
    );
    expect(events.map(({ event }) => event)).to.deep.equal(['consent_approved', 'level_lowered']);
  });

  it('CON-18 denying after lowering the level invalidates the code', async () => {
    const opened = await openConsent(system());
    const callback = requireExternalRedirect(await opened.decide(approve('full')));
    await opened.decide(approve('analytics'));
    expectDenied(await opened.decide(DENY));
    expect((await opened.redeem(callback)).body.error).to.equal('invalid_grant');
  });

  it('CON-18 unticking "stay connected" after approving issues no refresh token', async () => {
    const opened = await openConsent(system());
    const first = requireExternalRedirect(await opened.decide(approve('admin')));
    const second = requireExternalRedirect(await opened.decide(approve('admin', false)));
    expect(second.href).to.equal(first.href);
    const { body } = await opened.redeem(first);
    expect([body.scope, body.refresh_token]).to.deep.equal(['admin', undefined]);
  });

  it('CON-18 unticking "stay connected" after the code exchange ends only the refresh token', async () => {
    const opened = await openConsent(system());
    const tokens = await opened.redeem(
      requireExternalRedirect(await opened.decide(approve('admin'))),
    );
    await opened.decide(approve('admin', false));
    expect((await opened.refresh(tokens)).body.error).to.equal('invalid_grant');
    expect(await isAccepted(opened.link, tokens.body.access_token)).to.equal(true);
    advanceClock(600);
    expect(await isAccepted(opened.link, tokens.body.access_token)).to.equal(true);
    const grant = await showGrant(system(), grantOf(tokens));
    expect([grant.state, grant.refusals]).to.deep.equal(['active', []]);
  });

  it('CON-18 unticking "stay connected" after a refresh keeps the access token until it expires', async () => {
    const opened = await openConsent(system());
    const tokens = await opened.redeem(
      requireExternalRedirect(await opened.decide(approve('admin'))),
    );
    advanceClock(3);
    const refreshed = await opened.refresh(tokens);
    await opened.decide(approve('admin', false));
    expect((await opened.refresh(refreshed)).body.error).to.equal('invalid_grant');
    advanceClock(600);
    expect(await isAccepted(opened.link, refreshed.body.access_token)).to.equal(true);
    advanceClock(4000);
    const grant = await showGrant(system(), grantOf(tokens));
    expect([grant.state, grant.reason]).to.deep.equal(['ended', 'not_renewable']);
  });

  it('CON-19 approving after denying has no effect', async () => {
    const { decide, page, browser } = await openConsent(system());
    const denied = requireExternalRedirect(await decide(DENY));
    const later = requirePage(await decide(approve('analytics')));
    expectDenied(later);
    expect(requireExternalRedirect(await decide(DENY)).href).to.equal(denied.href);
    expectDenied(requirePage(await browser.visit(page.url)));
  });

  it('CON-19 approving again after approving and denying has no effect', async () => {
    const opened = await openConsent(system());
    const callback = requireExternalRedirect(await opened.decide(approve('full')));
    await opened.decide(DENY);
    expectDenied(requirePage(await opened.decide(approve('full'))));
    expect((await opened.redeem(callback)).body.error).to.equal('invalid_grant');
  });

  it('CON-19 approving a higher level after approving has no effect, and the page says so', async () => {
    const opened = await openConsent(system());
    const callback = requireExternalRedirect(await opened.decide(approve('analytics', false)));
    const later = await opened.decide(approve('full'));
    expectApproved(later, 'analytics');
    expect(requirePage(later).html).to.not.include('>full<');
    const { body } = await opened.redeem(callback);
    expect([body.scope, body.refresh_token]).to.deep.equal(['analytics', undefined]);
  });

  it('CON-19 ticking "stay connected" after approving issues no refresh token', async () => {
    const opened = await openConsent(system());
    const first = requireExternalRedirect(await opened.decide(approve('admin', false)));
    const second = requireExternalRedirect(await opened.decide(approve('admin')));
    expect(second.href).to.equal(first.href);
    const { body } = await opened.redeem(first);
    expect([body.scope, body.refresh_token]).to.deep.equal(['admin', undefined]);
  });

  it('CON-19 approving the higher level again after lowering it grants the lower level', async () => {
    const opened = await openConsent(system());
    const callback = requireExternalRedirect(await opened.decide(approve('full')));
    await opened.decide(approve('analytics'));
    expectApproved(await opened.decide(approve('full')), 'analytics');
    expect((await opened.redeem(callback)).body.scope).to.equal('analytics offline_access');
  });

  it('CON-18 a different decision after 15 seconds has no effect, and the page shows the first one', async () => {
    const opened = await openConsent(system());
    const tokens = await opened.redeem(
      requireExternalRedirect(await opened.decide(approve('admin'))),
    );
    advanceClock(16);
    for (const filling of [DENY, approve('analytics'), approve('admin', false), approve('admin')])
      expectApproved(await opened.decide(filling), 'admin');
    const refreshed = await opened.refresh(tokens);
    expect(refreshed.body.scope).to.equal('admin offline_access');
    expect(await isAccepted(opened.link, tokens.body.access_token)).to.equal(true);
  });

  it('CON-18 switching accounts after approving has no effect, and the page shows the decision', async () => {
    const opened = await openConsent(system());
    const callback = requireExternalRedirect(await opened.decide(approve('admin')));
    expectApproved(await opened.decide({ decision: 'switch' }), 'admin');
    expect((await opened.redeem(callback)).body.scope).to.equal('admin offline_access');
  });

  it('CON-06 CON-18 a form of another authorization, browser or site does not change the decision', async () => {
    const opened = await openConsent(system());
    const other = await openConsent(system(), {}, openBrowser(system().origins));
    const callback = requireExternalRedirect(await opened.decide(approve('admin')));
    const { action } = opened.page.forms.find(({ method }) => method === 'POST') ?? {};
    if (!action) throw new Error('the page has no form');
    const form = (token: string) => new URLSearchParams({ decision: 'deny', token });
    const tokenOf = ({ html }: { html: string }) => /name="token" value="([^"]+)"/.exec(html)?.[1];
    const [own = '', foreign = ''] = [opened.page, other.page].map(tokenOf);
    const evil = { ...opened.page, url: new URL('https://evil.example/') };
    const attempts: [string, Promise<Step>][] = [
      ['without a token', opened.browser.post(opened.page, action, form(''))],
      ['of another authorization', opened.browser.post(opened.page, action, form(foreign))],
      ['of another site', opened.browser.post(evil, action, form(own))],
      ['of another browser', other.browser.post(opened.page, action, form(own))],
    ];
    for (const [what, attempt] of attempts)
      expect(requirePage(await attempt).status, what).to.be.oneOf([400, 403]);
    expect((await opened.redeem(callback)).body.scope).to.equal('admin offline_access');
  });
});

onEachStore('Concurrent decisions on a consent page', (system) => {
  for (const answers of [
    [approve('full'), DENY],
    [DENY, approve('full')],
    [approve('full'), DENY, approve('full'), DENY],
  ]) {
    const title = answers.map(({ decision }) => decision).join(', ');
    it(`CON-18 CON-19 concurrent decisions that include a denial deny (${title})`, async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const opened = await openConsent(system(), { maxUses: 1 });
        const steps = await Promise.all(answers.map(opened.decide));
        for (const step of steps) {
          if (step.kind === 'page') {
            expect(step.status, describePage(step)).to.be.below(500);
            continue;
          }
          if (step.url.searchParams.has('code'))
            expect((await opened.redeem(step.url)).body.error).to.equal('invalid_grant');
          else expectDenied(step);
        }
        const { state } = await showConnector(system(), opened.connector.id);
        expect(state).to.equal('active');
      }
    });
  }

  it('CON-18 a lower decision concurrent with the code exchange leaves the app with the lower grant', async () => {
    for (const filling of [DENY, approve('full', false), approve('analytics')]) {
      for (let round = 0; round < ROUNDS; round += 1) {
        const opened = await openConsent(system());
        const callback = requireExternalRedirect(await opened.decide(approve('full')));
        const [tokens] = await Promise.all([opened.redeem(callback), opened.decide(filling)]);
        const { access_token: token, refresh_token: refreshToken } = tokens.body;
        const what = JSON.stringify([filling, tokens.status, tokens.body.scope]);
        if (filling === DENY) expect(await isAccepted(opened.link, token), what).to.equal(false);
        if (refreshToken === undefined) continue;
        const { status, body } = await opened.refresh(tokens);
        if (filling.level === 'analytics')
          expect(body.scope, what).to.equal('analytics offline_access');
        else expect([status, body.error], what).to.deep.equal([400, 'invalid_grant']);
      }
    }
  });

  it('CON-18 CON-19 concurrent approvals of several levels grant the lowest', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const opened = await openConsent(system());
      const steps = await Promise.all(
        ['full', 'analytics', 'admin'].map((level) => opened.decide(approve(level))),
      );
      const callback = steps.find(
        (step) => step.kind === 'redirect' && step.url.searchParams.has('code'),
      );
      if (callback?.kind !== 'redirect') throw new Error('no redirect to the app has a code');
      expect((await opened.redeem(callback.url)).body.scope).to.equal('analytics offline_access');
    }
  });
});
