// An entitlement rule accepts only the provider it names, also if one issuer is both a sign-in provider and a trusted issuer.
import { expect } from 'chai';
import { decodeJwt, type JWTPayload } from 'jose';
import { ID_JAG_ERRORS } from '../../src/oauth/engine/id-jag-validation.ts';
import type { Level } from '../../src/permission-levels.ts';
import {
  type Connector,
  createConnector,
  listGrants,
  requestManagement,
} from '../support/management-api.ts';
import {
  type Browser,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { authorizeUrl, discover, refresh, requestToken } from '../support/oauth.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import { validClaims, startIdJagIssuer, type IdJagIssuer } from '../support/id-jag-issuer.ts';
import { APP, type Claims, GRANT_TYPE, idOf, preRegistered } from '../support/id-jag-system.ts';

/** Longer than a process caches an account. */
const REMEMBERED = 15;
const READER = { id: 'reader', secret: 'the-secret-of-the-reader-that-is-long-enough' };

type Rule = { match: object; level: Level };

describe('Entitlement rules for assertions', () => {
  let partner: IdJagIssuer;
  let company: OpenIdProvider;
  const running: System[] = [];
  before(async () => {
    [partner, company] = await Promise.all([startIdJagIssuer(), startOpenIdProvider()]);
  });
  afterEach(async () => {
    restoreClock();
    await Promise.all(running.splice(0).map((system) => system.stop()));
  });
  after(() => Promise.all([partner.stop(), company.stop()]));

  /** `issuer`: the trusted issuer; the partner signs its assertions. */
  async function start(entitlements: Rule[], more: object = {}, issuer = partner.issuer) {
    const trusted = { issuer, jwks: { keys: [partner.jwk()] }, clients: [APP.id] };
    const system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        management: { administrators: [] },
        identityProvider: { issuer: company.issuer, ...OPENID_CLIENT },
        entitlements,
        clients: { preRegistered: [preRegistered(APP)] },
        authorization: { trustedIssuers: [trusted], introspectionClients: [READER] },
        ...more,
      },
    });
    running.push(system);
    const connector = await createConnector(system, { level: 'full' });
    const { server } = await discover(connector.link);
    const present = async (claims: Claims) => {
      const parties = { aud: system.auth, client_id: APP.id, resource: connector.link };
      const assertion = await partner.sign({ ...validClaims(issuer), ...parties, ...claims });
      return requestToken(server, APP, { grant_type: GRANT_TYPE, assertion });
    };
    return { system, connector, server, present };
  }

  const MAIL = { email: 'ceo@example.com', email_verified: true };
  const ASSERTED: [match: object, claims: Claims][] = [
    [{ subject: 'ada' }, { sub: 'ada' }],
    [{ group: 'finance' }, { groups: ['finance'] }],
    [{ email: 'ceo@example.com' }, MAIL],
    [{ emailDomain: 'example.com' }, MAIL],
    [{ anyone: true }, {}],
  ];
  const rulesAt = (provider?: string): Rule[] =>
    ASSERTED.map(([match]) => ({
      match: { ...match, ...(provider === undefined ? {} : { provider }) },
      level: 'full',
    }));

  for (const provider of [undefined, 'default']) {
    it(`ENT-01 a rule that names ${provider ?? 'no provider'} is never satisfied by a trusted issuer`, async () => {
      const { present } = await start(rulesAt(provider));
      for (const [match, claims] of ASSERTED) {
        const { status, body } = await present(claims);
        expect([status, body.error_description], JSON.stringify(match)).to.deep.equal([
          400,
          ID_JAG_ERRORS.not_entitled.description,
        ]);
      }
    });
  }

  it("ENT-02 a rule that names a trusted issuer is satisfied by that issuer's assertions", async () => {
    const anyone = rulesAt(idOf(partner.issuer)).slice(-1);
    expect((await (await start(anyone)).present({})).body.scope).to.equal('full');
    const { present } = await start(rulesAt(idOf(partner.issuer)).slice(0, -1));
    expect((await present({})).body.error).to.equal('invalid_grant');
    for (const [match, claims] of ASSERTED.slice(0, -1))
      expect((await present(claims)).body.scope, JSON.stringify(match)).to.equal('full');
  });

  describe('one issuer for sign-ins and assertions', () => {
    let own: Awaited<ReturnType<typeof start>>;
    let connector: Connector;
    let browser: Browser;
    beforeEach(async () => {
      own = await start(
        [
          { match: { group: 'analysts' }, level: 'analytics' },
          { match: { group: 'owners' }, level: 'full' },
          { match: { emailDomain: 'example.com' }, level: 'admin' },
          { match: { group: 'staff', provider: idOf(company.issuer) }, level: 'operations' },
        ],
        {},
        company.issuer,
      );
      ({ connector } = own);
      browser = openBrowser([own.system.auth]);
    });

    async function arrive(claims?: JWTPayload) {
      const { server } = own;
      const client = await registerClient(server);
      const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
      if (claims)
        company.setBehaviour({ claims: { name: 'Ada', email: 'ada@else.example', ...claims } });
      const step = await browser.visit(url);
      const page = requirePage(
        claims ? await browser.visit(company.approve(requireExternalRedirect(step))) : step,
      );
      const approve = async () => {
        const callback = requireExternalRedirect(
          await browser.submit(page, { decision: 'approve' }),
        );
        return redeem({ link: connector.link, server, client, callback, verifier });
      };
      return { page, client, approve };
    }

    const offered = ({ forms }: Page) =>
      forms.flatMap(({ controls }) =>
        controls.flatMap(({ name, value }) => (name === 'level' ? [value] : [])),
      );

    const ASSERTION = { sub: 'ada', groups: ['staff', 'owners'], ...MAIL };

    it('ENT-04 an assertion does not raise a connection that the person approved after a sign-in', async () => {
      const { client, approve } = await arrive({ sub: 'ada', groups: ['analysts'] });
      const signedIn = await approve();
      expect(signedIn.body.scope).to.equal('analytics offline_access');
      const { body } = await own.present(ASSERTION);
      expect(body.scope).to.equal('operations');
      const [one, other] = [signedIn.body, body].map((answer) =>
        decodeJwt(answer.access_token ?? ''),
      );
      expect(one?.sub).to.equal(other?.sub);
      advanceClock(REMEMBERED);
      const refreshed = await refresh(own.server, client, signedIn.body.refresh_token);
      expect(refreshed.body.scope).to.equal('analytics offline_access');
      // The person is still signed in, so the account record decides.
      expect(offered((await arrive()).page)).to.deep.equal(['analytics']);
      const { items } = await listGrants(own.system, { connector: connector.id });
      expect(items.map(({ state, level }) => [state, level])).to.have.deep.members([
        ['active', 'analytics'],
        ['active', 'operations'],
      ]);
    });

    it('ENT-04 groups from a sign-in do not apply to an assertion', async () => {
      await (await arrive({ sub: 'ada', groups: ['owners', 'staff'], ...MAIL })).approve();
      const { status } = await own.present({ sub: 'ada' });
      expect(status).to.equal(400);
      expect((await own.present({ sub: 'ada', groups: ['staff'] })).body.scope).to.equal(
        'operations',
      );
    });

    it('ENT-04 groups from an assertion do not apply to a sign-in', async () => {
      expect((await own.present(ASSERTION)).status).to.equal(200);
      const { page } = await arrive({ sub: 'ada', groups: [] });
      expect([page.status, offered(page)]).to.deep.equal([403, []]);
    });

    it('a token from an assertion stays active if a later sign-in entitles the person to nothing', async () => {
      const { body } = await own.present(ASSERTION);
      expect((await arrive({ sub: 'ada', groups: [] })).page.status).to.equal(403);
      advanceClock(REMEMBERED);
      const { text } = await postToken(
        String(own.server.introspection_endpoint),
        { ...APP, ...READER },
        body.access_token,
      );
      expect(JSON.parse(text)).to.include({ active: true, scope: 'operations' });
    });

    it('a disabled account is refused at an assertion and at a sign-in', async () => {
      const { body } = await own.present(ASSERTION);
      const { sub } = decodeJwt(body.access_token ?? '');
      await requestManagement(own.system, 'POST', `/accounts/${sub}/disable`);
      expect((await own.present(ASSERTION)).body.error).to.equal('invalid_grant');
      const { page } = await arrive({ sub: 'ada', groups: ['owners'] });
      expect([page.status, offered(page)]).to.deep.equal([403, []]);
    });
  });
});
