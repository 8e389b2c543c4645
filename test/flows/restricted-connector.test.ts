// Connectors with an audience. Two identity providers and a trusted issuer, and everybody is entitled to every level.
import { expect } from 'chai';
import { decodeJwt, type JWTPayload } from 'jose';
import {
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { redeem, registerClient } from '../support/connection.ts';
import { type IdJagIssuer, startIdJagIssuer, validClaims } from '../support/id-jag-issuer.ts';
import { APP, GRANT_TYPE, idOf, preRegistered } from '../support/id-jag-system.ts';
import {
  type Connector,
  createConnector,
  listGrants,
  readAudit,
  showConnector,
  showGrant,
} from '../support/management-api.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  refresh,
  requestToken,
  type Server,
} from '../support/oauth.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';

type Audience = Record<string, string>[];
type ProviderId = 'example' | 'partners';

const ANALYSTS: Audience = [{ group: 'analysts', provider: 'example' }];
const READER = { id: 'reader', secret: 'the-secret-of-the-reader-that-is-long-enough' };
const ADA = { email: 'ada@example.com', email_verified: true };

describe('Connectors for some people', () => {
  let issuer: IdJagIssuer;
  let providers: Record<ProviderId, OpenIdProvider>;
  let system: System;
  let server: Server;
  let client: Client;
  before(async () => {
    const [assertions, example, partners] = await Promise.all([
      startIdJagIssuer(),
      startOpenIdProvider(),
      startOpenIdProvider(),
    ]);
    issuer = assertions;
    providers = { example, partners };
    const sourceIds = ['example', 'partners', idOf(issuer.issuer)];
    const trusted = { issuer: issuer.issuer, jwks: { keys: [issuer.jwk()] }, clients: [APP.id] };
    system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: {
        developmentIdp: undefined,
        management: { administrators: [] },
        identityProviders: [
          {
            id: 'example',
            name: 'Example',
            issuer: example.issuer,
            emailDomains: ['example.com'],
            ...OPENID_CLIENT,
          },
          { id: 'partners', name: 'Partners', issuer: partners.issuer, ...OPENID_CLIENT },
        ],
        entitlements: sourceIds.map((provider) => ({
          match: { anyone: true, provider },
          level: 'full',
        })),
        clients: { preRegistered: [preRegistered(APP)] },
        authorization: { trustedIssuers: [trusted], introspectionClients: [READER] },
      },
    });
    ({ server } = await discover((await createConnector(system)).link));
    client = await registerClient(server);
  });
  after(async () => {
    await system?.stop();
    await Promise.all([issuer, ...Object.values(providers)].map((server) => server.stop()));
  });

  const restricted = (audience: Audience, more: object = {}) =>
    createConnector(system, { level: 'full', audience, ...more });

  /** Signs in with a new browser and opens the consent page, or the page that is shown in its place. */
  async function arrive(
    { link }: Connector,
    claims: JWTPayload,
    { at = 'example' }: { at?: ProviderId } = {},
  ) {
    const { url, verifier } = authorizeUrl(server, client, { resource: link });
    const browser = openBrowser([system.auth]);
    // Without an address, Gatehouse would ask the provider for one.
    const person = { sub: 'ada', name: 'Ada', email: 'ada@else.example' };
    providers[at].setBehaviour({ claims: { ...person, ...claims } });
    const choice = requirePage(await browser.visit(url));
    const departure = requireExternalRedirect(await browser.submit(choice, { provider: at }));
    const page = requirePage(await browser.visit(providers[at].approve(departure)));
    const decide = (decision: string, shown = page) => browser.submit(shown, { decision });
    const code = (callback: URL) => ({ link, server, client, callback, verifier });
    return { page, browser, decide, code };
  }

  async function approve(connector: Connector, claims: JWTPayload) {
    const arrived = await arrive(connector, claims);
    const callback = requireExternalRedirect(await arrived.decide('approve'));
    return { ...arrived, code: arrived.code(callback) };
  }

  async function connected(connector: Connector, claims: JWTPayload) {
    const approved = await approve(connector, claims);
    const { body } = await redeem(approved.code);
    const token = String(body.access_token);
    return { ...approved, token, refreshToken: body.refresh_token, claims: decodeJwt(token) };
  }

  /** What the provider says about the person changes, and the account follows at the next sign-in. */
  const signInAgain = async (claims: JWTPayload) => arrive(await createConnector(system), claims);

  const isOffered = ({ status, forms }: Page) =>
    status === 200 &&
    forms.some(({ controls }) => controls.some(({ value }) => value === 'approve'));

  async function present({ link }: Connector, claims: object) {
    const parties = { aud: system.auth, client_id: APP.id, resource: link };
    const assertion = await issuer.sign({ ...validClaims(issuer.issuer), ...parties, ...claims });
    return requestToken(server, APP, { grant_type: GRANT_TYPE, assertion });
  }

  const ELIGIBLE: [who: string, Audience, JWTPayload, ProviderId?][] = [
    ['a verified address', [{ email: 'ADA@Example.com' }], { ...ADA, email: 'Ada@EXAMPLE.com' }],
    ['a verified address in the domain', [{ emailDomain: 'Example.com' }], ADA],
    ['a group of the provider', ANALYSTS, { groups: ['staff', 'analysts'] }],
    [
      'a verified address in a domain without an owner',
      [{ emailDomain: 'partner.example' }],
      { email: 'eve@partner.example', email_verified: true },
      'partners',
    ],
    ['any of several rules', [{ email: 'bob@example.com' }, ...ANALYSTS], { groups: ['analysts'] }],
  ];
  for (const [who, audience, claims, at] of ELIGIBLE) {
    it(`RCN-02 the audience includes a person with ${who}`, async () => {
      const { page } = await arrive(await restricted(audience), claims, at ? { at } : {});
      expect(isOffered(page)).to.equal(true);
    });
  }

  const FOREIGN: [who: string, Audience, JWTPayload, ProviderId?][] = [
    ['another address', [{ email: 'ada@example.com' }], { ...ADA, email: 'bob@example.com' }],
    ['an address that is not verified', [{ email: ADA.email }], { ...ADA, email_verified: false }],
    [
      'the domain in an address that is not verified',
      [{ emailDomain: 'example.com' }],
      { email: ADA.email },
    ],
    [
      'an address in a subdomain',
      [{ emailDomain: 'example.com' }],
      { ...ADA, email: 'ada@x.example.com' },
    ],
    ['the group in other letters', ANALYSTS, { groups: ['Analysts', 'analyst'] }],
    ['no group', ANALYSTS, ADA],
    ['the group of another provider', ANALYSTS, { groups: ['analysts'] }, 'partners'],
    [
      'an address that does not come from the owner of its domain',
      [{ email: ADA.email }],
      ADA,
      'partners',
    ],
    ['the domain, but not from its owner', [{ emailDomain: 'example.com' }], ADA, 'partners'],
  ];
  for (const [who, audience, claims, at] of FOREIGN) {
    it(`RCN-02 the audience does not include a person with ${who}`, async () => {
      const { page } = await arrive(await restricted(audience), claims, at ? { at } : {});
      expect([page.status, isOffered(page)]).to.deep.equal([403, false]);
    });
  }

  it('RCN-02 a trusted issuer satisfies only a rule that names it, and only its own claims count', async () => {
    const claims = { sub: 'ada', groups: ['analysts'], ...ADA };
    for (const audience of [ANALYSTS, [{ email: ADA.email }], [{ emailDomain: 'example.com' }]]) {
      const connector = await restricted(audience);
      const { status, body } = await present(connector, claims);
      expect([status, body.error], JSON.stringify(audience)).to.deep.equal([400, 'invalid_grant']);
      const { items } = await listGrants(system, { connector: connector.id });
      expect(items).to.deep.equal([]);
    }
    const named = await restricted([{ group: 'analysts', provider: idOf(issuer.issuer) }]);
    const { body } = await present(named, claims);
    expect(await isAccepted(named.link, body.access_token)).to.equal(true);
    expect(isOffered((await arrive(named, claims)).page)).to.equal(false);
    // The next assertion says that the person has left the group.
    const answer = await present(named, { ...claims, groups: [] });
    expect(answer.body.error).to.equal('invalid_grant');
  });

  it('with several providers, a rule that does not say or cannot have the provider is refused, and the error lists the providers', async () => {
    const providers = `example, partners, ${idOf(issuer.issuer)}`;
    const owner = 'example, because this domain is in its emailDomains';
    const refused = await restricted([
      { group: 'analysts' },
      { email: 'bob@partner.example' },
      { group: 'analysts', provider: 'okta' },
      { emailDomain: 'example.com', provider: 'partners' },
      { email: ADA.email, provider: idOf(issuer.issuer) },
    ]).catch((error: unknown) => String(error));
    expect(refused).to.include(
      [
        `audience.0.provider: one of ${providers}, because there are several`,
        `audience.2.provider: one of ${providers}`,
        `audience.3.provider: ${owner}`,
        `audience.4.provider: ${owner}`,
      ].join('; '),
    );
  });

  it('RCN-01 everybody else gets a page that says so, and nothing is granted or counted', async () => {
    const connector = await restricted(ANALYSTS, { name: 'Numbers', maxUses: 1 });
    const { page, decide } = await arrive(connector, { ...ADA, groups: ['guests'] });
    expect(page.html).to.include('isn’t for your account').and.include('or use another account');
    for (const secret of ['analysts', 'guests']) expect(page.html).to.not.include(secret);
    const callback = requireExternalRedirect(await decide('deny'));
    expect(callback.searchParams.get('error')).to.equal('access_denied');
    expect(callback.searchParams.get('error_description')).to.not.include('analysts');
    const forced = await arrive(connector, { ...ADA, groups: ['guests'] });
    const body = new URLSearchParams({
      token: /name="token" value="([^"]+)"/.exec(forced.page.html)?.[1] ?? '',
      decision: 'approve',
      level: 'analytics',
    });
    const answer = requirePage(await forced.browser.post(forced.page, forced.page.url, body));
    expect(isOffered(answer)).to.equal(false);
    expect(await showConnector(system, connector.id)).to.include({ uses: 0, state: 'active' });
    expect(isOffered((await arrive(connector, { groups: ['analysts'] })).page)).to.equal(true);
  });

  it('RCN-01 a person whose address is not verified is told that a link for the address does not include them', async () => {
    const connector = await restricted([{ email: ADA.email }]);
    const { page } = await arrive(connector, { ...ADA, email_verified: false });
    expect(page.html).to.include('didn’t tell us that your email address is confirmed');
    const other = await arrive(connector, { ...ADA, email: 'eve@partner.example' });
    expect(other.page.html).to.not.include('didn’t tell us');
  });

  it('RCN-01 a person who leaves the audience while the consent page is open cannot approve', async () => {
    const connector = await restricted(ANALYSTS);
    const { decide } = await arrive(connector, { groups: ['analysts'] });
    await signInAgain({ groups: [] });
    const answer = requirePage(await decide('approve'));
    expect(answer.status).to.equal(403);
    expect(answer.html).to.include('isn’t for your account');
  });

  it('RCN-01 a person who leaves the audience is refused at calls, code exchange, refresh and introspection, until they are back', async () => {
    const connector = await restricted(ANALYSTS);
    const before = await connected(connector, { groups: ['analysts'] });
    const { code } = await approve(connector, { groups: ['analysts'] });
    expect(await isAccepted(connector.link, before.token)).to.equal(true);
    const introspect = async () => {
      const url = String(server.introspection_endpoint);
      return JSON.parse((await postToken(url, { ...APP, ...READER }, before.token)).text);
    };
    expect(await introspect()).to.include({ active: true });

    await signInAgain({ groups: ['guests'] });
    const call = await callTool(connector.link, before.token, 'club_overview');
    expect(call.status).to.equal(401);
    expect(call.headers.get('www-authenticate')).to.include('error="invalid_token"');
    expect(await introspect()).to.deep.equal({ active: false });
    const refused = [await redeem(code), await refresh(server, client, before.refreshToken)];
    for (const { status, body } of refused)
      expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
    const grant = await showGrant(system, String(before.claims['grant_id']));
    expect(grant).to.include({ state: 'refused', reason: 'not_in_audience' });
    expect(grant.explanation).to.match(/only for certain people/);
    expect(grant.refusals.map(({ reason }) => reason)).to.deep.equal(['not_in_audience']);

    await signInAgain({ groups: ['analysts'] });
    expect(await isAccepted(connector.link, before.token)).to.equal(true);
    const renewed = await refresh(server, client, before.refreshToken);
    expect(await isAccepted(connector.link, renewed.body.access_token)).to.equal(true);
  });

  it('the account page says that the link is for other people now', async () => {
    const connector = await restricted(ANALYSTS);
    await connected(connector, { sub: 'grace', groups: ['analysts'] });
    const { browser } = await signInAgain({ sub: 'grace', groups: [] });
    const page = requirePage(await browser.visit(`${system.auth}/account`));
    expect(page.html).to.include('limited to certain people, and you’re no longer one of them');
  });

  it('RCN-03 before the sign-in, a restricted link answers like any other', async () => {
    const connectors = [
      await restricted([{ email: 'ada@example.com' }, ...ANALYSTS], { name: 'Numbers' }),
      await createConnector(system, { level: 'full', name: 'Numbers' }),
    ];
    const answers = connectors.map(async ({ id, link }) => {
      const plain = (text: string) => text.replaceAll(id, '<id>');
      const challenged = await callTool(link, undefined, 'club_overview');
      const header = String(challenged.headers.get('www-authenticate'));
      const metadata = await fetch(/resource_metadata="([^"]+)"/.exec(header)?.[1] ?? '');
      const visited = await fetch(link, { headers: { accept: 'text/html' } });
      const { url } = authorizeUrl(server, client, { resource: link });
      const page = requirePage(await openBrowser([system.auth]).visit(url));
      return [
        [challenged.status, plain(header)],
        plain(await metadata.text()),
        // Install addresses contain the id in other encodings.
        [visited.status, plain(await visited.text()).replace(/href="[^"]*"/g, '')],
        [page.status, page.html.replace(/\/interaction\/[\w-]+/g, '')],
      ];
    });
    const [first, second] = await Promise.all(answers);
    expect(first).to.deep.equal(second);
  });

  it('LOG-05 the audit record of a restricted connector names its groups and domains, and no address', async () => {
    const { id } = await restricted([{ email: ADA.email }, ...ANALYSTS]);
    const items = (await readAudit(system)).filter(({ connector }) => connector === id);
    expect(items.map(({ arguments: details }) => details)).to.deep.equal([
      {
        name: 'Club figures',
        level: 'full',
        audience: ['email:…@example.com', 'group:analysts@example'],
      },
    ]);
  });
});
