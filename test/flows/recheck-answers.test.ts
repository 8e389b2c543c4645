import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { registerClient } from '../support/connection.ts';
import { type Github, GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { createConnector, showGrant } from '../support/management-api.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  exchange,
  refresh,
  type Server,
} from '../support/oauth.ts';
import {
  type Behaviour,
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { type LogLine, startSystem, type System } from '../support/system.ts';

const DAY = 86_400;
const TOKEN = Buffer.from('{"sub":"subject-1","canary":"never-in-a-log"}').toString('base64url');
const PERSON = {
  name: 'Ada',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['analysts'],
};
const LEFT = { ...PERSON, groups: [] };
const ISSUES = { tokens: { refresh_token: TOKEN } };
const answer = (status: number, body: string): NonNullable<Behaviour['responses']> => ({
  '/token': (_req, res) => res.writeHead(status, { 'content-type': 'application/json' }).end(body),
});

/** Refusals that a new sign-in cures. */
const NEEDS_SIGN_IN: Record<string, [status: number, body: object]> = {
  'that needs the person': [400, { error: 'interaction_required' }],
  'of Entra ID because a second factor is due': [
    400,
    { error: 'invalid_grant', suberror: 'basic_action', error_codes: [50076] },
  ],
  'with an unknown error': [403, { error: TOKEN, error_description: TOKEN }],
};

/** What the provider does at the recheck. Each answer that is about a person says that the person has no groups. */
const UNUSABLE: Record<string, Behaviour> = {
  'about another person': { claims: { ...LEFT, sub: 'subject-2' } },
  'of another issuer': { claims: { ...LEFT, iss: 'https://other.example.com' } },
  'for another client': { claims: { ...LEFT, aud: 'other' } },
  'that has expired': { claims: { ...LEFT, exp: 1000 } },
  'signed with an unknown key': { claims: LEFT, signature: 'stranger' },
  'without a signature': { claims: LEFT, signature: 'none' },
  'with no ID token, and UserInfo about another person': {
    tokens: { id_token: undefined },
    userinfo: { status: 200, body: { ...LEFT, sub: 'subject-2' } },
  },
  'that is no JSON': { responses: answer(200, 'canary') },
  'that repeats the token in an unknown error': {
    responses: answer(503, JSON.stringify({ error: TOKEN, error_description: TOKEN })),
  },
  'with invalid_client': { responses: answer(401, '{"error":"invalid_client"}') },
  'with status 500 and invalid_grant': { responses: answer(500, '{"error":"invalid_grant"}') },
};

describe("A provider's answer to a recheck", () => {
  const log: LogLine[] = [];
  let provider: OpenIdProvider;
  let github: Github;
  let system: System;
  let link: string;
  let server: Server;
  let client: Client;
  before(async () => {
    provider = await startOpenIdProvider();
    github = await startGithub();
    const recheck = '24h';
    const file = {
      developmentIdp: undefined,
      management: { administrators: [] },
      identityProviders: [
        { id: 'example', name: 'Example', issuer: provider.issuer, recheck, ...OPENID_CLIENT },
        {
          id: 'github',
          name: 'GitHub',
          kind: 'github',
          issuer: github.issuer,
          organizations: true,
          recheck,
          ...GITHUB_CLIENT,
        },
      ],
      entitlements: [
        { match: { group: 'analysts', provider: 'example' }, level: 'operations' },
        { match: { group: 'analysts', provider: 'github' }, level: 'operations' },
      ],
    };
    const settings = { GATEHOUSE_DEVELOPMENT_IDP_URL: '', GATEHOUSE_LOG_LEVEL: 'info' };
    system = await startSystem({ settings, file, log });
    ({ link } = await createConnector(system));
    ({ server } = await discover(link));
    client = await registerClient(server);
  });
  beforeEach(() => {
    log.length = 0;
    github.setBehaviour({ organizations: ['analysts'] });
  });
  // Not after each test: a warning is logged at most once a minute.
  after(async () => {
    restoreClock();
    await system.stop();
    await provider.stop();
    await github.stop();
  });

  /** Signs in at a provider and connects the app. `renew` refreshes. */
  async function connectVia(id: 'example' | 'github') {
    const browser = openBrowser([system.auth]);
    const { url, verifier } = authorizeUrl(server, client, { resource: link });
    const choice = requirePage(await browser.visit(url));
    const departure = requireExternalRedirect(await browser.submit(choice, { provider: id }));
    const back = id === 'github' ? github.approve(departure) : provider.approve(departure);
    const consent = requirePage(await browser.visit(back));
    const decision = { decision: 'approve', stay: 'on' };
    const callback = requireExternalRedirect(await browser.submit(consent, decision));
    const { body } = await exchange(server, client, { callback, verifier });
    let token = body.refresh_token;
    return {
      departure,
      grant: String(decodeJwt(String(body.access_token)).grant_id),
      async renew() {
        const answered = await refresh(server, client, token);
        token = answered.body.refresh_token ?? token;
        return [answered.status, answered.body.error];
      },
    };
  }

  for (const [what, behaviour] of Object.entries(UNUSABLE))
    it(`CNX-14 an answer ${what} changes nothing and is logged without the token`, async () => {
      provider.setBehaviour({ claims: PERSON, ...ISSUES });
      const { renew, departure } = await connectVia('example');
      expect(departure.searchParams.get('scope')?.split(' ')).to.include('offline_access');
      provider.setBehaviour({ ...ISSUES, ...behaviour });
      advanceClock(DAY);
      expect(await renew()).to.deep.equal([200, undefined]);
      const warnings = log.filter(({ msg }) =>
        /no valid response about a person/.test(String(msg)),
      );
      expect(warnings.map(({ what: issuer }) => issuer)).to.deep.equal([provider.issuer]);
      expect(JSON.stringify(log)).to.not.include(TOKEN.slice(0, 40));
      advanceClock(DAY);
      expect(await renew()).to.deep.equal([503, 'temporarily_unavailable']);
      provider.setBehaviour({ claims: LEFT, ...ISSUES });
      expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    });

  it('UserInfo is used if the refresh has no ID token', async () => {
    provider.setBehaviour({ claims: PERSON, ...ISSUES });
    const { renew, grant } = await connectVia('example');
    provider.setBehaviour({
      tokens: { ...ISSUES.tokens, id_token: undefined },
      userinfo: { status: 200, body: { ...LEFT, sub: 'subject-1' } },
    });
    advanceClock(DAY);
    expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    expect(await showGrant(system, grant)).to.include({ state: 'refused', reason: 'not_entitled' });
  });

  for (const [what, [status, body]] of Object.entries(NEEDS_SIGN_IN))
    it(`CNX-16 a refusal ${what} makes the person sign in again, and the connection goes on after it`, async () => {
      provider.setBehaviour({ claims: PERSON, ...ISSUES });
      const { renew, grant } = await connectVia('example');
      provider.setBehaviour({
        responses: answer(status, JSON.stringify(body)),
      });
      advanceClock(DAY);
      expect(await renew()).to.deep.equal([400, 'invalid_grant']);
      const refused = { state: 'refused', reason: 'sign_in_again' };
      expect(await showGrant(system, grant)).to.include(refused);
      expect(JSON.stringify(log)).to.not.include(TOKEN.slice(0, 40));
      provider.setBehaviour({ claims: PERSON, ...ISSUES });
      await connectVia('example');
      expect(await renew()).to.deep.equal([200, undefined]);
    });

  it('a person without a refresh token of the provider must sign in again after the interval, and the log says so once', async () => {
    provider.setBehaviour({ claims: { ...PERSON, sub: 'subject-3' } });
    const { renew, grant } = await connectVia('example');
    advanceClock(DAY - 60);
    expect(await renew()).to.deep.equal([200, undefined]);
    advanceClock(60);
    expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    const { refusals, ...shown } = await showGrant(system, grant);
    expect(shown).to.include({ state: 'refused', reason: 'sign_in_again' });
    expect(refusals.map(({ reason }) => reason)).to.deep.equal(['sign_in_again']);
    await connectVia('example');
    expect(await renew()).to.deep.equal([200, undefined]);
    const warnings = log.filter(({ msg }) => /issued no refresh token/.test(String(msg)));
    expect(warnings.map(({ what }) => what)).to.deep.equal([provider.issuer]);
  });

  it('GitHub is asked with its access token: organizations follow, a suspended person must sign in again, and a refused token ends the connections', async () => {
    const { renew, grant } = await connectVia('github');
    github.setBehaviour({ responses: { '/api/v3/user/orgs': { status: 502 } } });
    advanceClock(DAY);
    expect(await renew()).to.deep.equal([200, undefined]);
    github.setBehaviour({ organizations: [] });
    advanceClock(60);
    expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    expect(await showGrant(system, grant)).to.include({ reason: 'not_entitled' });
    github.setBehaviour({ organizations: ['analysts'] });
    advanceClock(DAY);
    expect(await renew()).to.deep.equal([200, undefined]);
    const refuse = (body: object) =>
      github.setBehaviour({ responses: { '/api/v3/user': { status: 403, body } } });
    refuse({ message: 'You have exceeded a secondary rate limit.' });
    advanceClock(DAY);
    expect(await renew()).to.deep.equal([200, undefined]);
    refuse({ message: 'Sorry. Your account was suspended.' });
    advanceClock(60);
    expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    const refused = { state: 'refused', reason: 'sign_in_again' };
    expect(await showGrant(system, grant)).to.include(refused);
    github.setBehaviour({ organizations: ['analysts'] });
    await connectVia('github');
    expect(await renew()).to.deep.equal([200, undefined]);
    github.setBehaviour({ responses: { '/api/v3/user': { status: 401 } } });
    advanceClock(DAY);
    expect(await renew()).to.deep.equal([400, 'invalid_grant']);
    const ended = { state: 'ended', reason: 'identity_provider_ended' };
    expect(await showGrant(system, grant)).to.include(ended);
  });
});
