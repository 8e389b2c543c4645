import { expect } from 'chai';
import { decodeJwt, generateKeyPair, SignJWT } from 'jose';
import type { Reload } from '../../src/management/resources/settings.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  createConnector,
  readAudit,
  requestManagement,
  revokeConnector,
} from '../support/management-api.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { type Credentials, postToken } from '../support/token-endpoints.ts';
import { until } from '../support/until.ts';
import {
  type Answer,
  exchangeJwt,
  type Members,
  type Platform,
  startPlatform,
} from '../support/workload-platform.ts';

const UID = 'b7f3a1c2-0000-4000-8000-000000000001';
const SUBJECT = 'system:serviceaccount:billing:reporter';

const reporter = {
  id: 'reporter',
  match: {
    subject: 'system:serviceaccount:billing:*',
    claims: { '/kubernetes.io/serviceaccount/uid': UID },
  },
  connector: 'Reports',
  level: 'operations',
};

const RESOURCE_SERVER: Credentials = {
  id: 'figures-api',
  secret: 'secret-of-the-figures-api-0123456789',
  method: 'client_secret_basic',
};

describe('Workloads', () => {
  let platform: Platform;
  let authorization: Members;
  let system: System;
  let link = '';
  let other = '';
  let pairsLink = '';
  before(async () => {
    platform = await startPlatform();
    const workloads = [
      reporter,
      { id: 'pair-one', match: { subject: 'pair' }, connector: 'Pairs', level: 'analytics' },
      {
        id: 'pair-two',
        match: { claims: { team: 'blue' } },
        connector: 'Pairs',
        level: 'analytics',
      },
      {
        id: 'limited',
        match: { claims: { team: 'red' } },
        connector: 'Limited',
        level: 'analytics',
        calls: '2/10m',
      },
      {
        id: 'single',
        match: { claims: { team: 'gold' } },
        connector: 'Single',
        level: 'analytics',
      },
    ];
    const issuer = { id: 'cluster', issuer: platform.issuer, workloads };
    const introspectionClients = [{ id: RESOURCE_SERVER.id, secret: RESOURCE_SERVER.secret }];
    authorization = { trustedIssuers: [issuer], introspectionClients };
    system = await startSystem({ file: { authorization } });
    link = (await createConnector(system, { name: 'Reports', level: 'admin' })).link;
    other = (await createConnector(system, { name: 'Other', level: 'admin' })).link;
    pairsLink = (await createConnector(system, { name: 'Pairs' })).link;
  });
  after(async () => {
    await system?.stop();
    await platform?.stop();
  });
  afterEach(restoreClock);

  const now = () => Math.floor(Date.now() / 1000);
  const claims = (changed: Members = {}): Members => ({
    iss: platform.issuer,
    sub: SUBJECT,
    aud: [system.auth],
    iat: now(),
    exp: now() + 600,
    'kubernetes.io': { serviceaccount: { uid: UID } },
    ...changed,
  });

  const exchange = (assertion: string, more: Record<string, string> = {}): Promise<Answer> =>
    exchangeJwt(system.auth, { assertion, resource: link, ...more });
  const exchangeClaims = async (
    changed?: Members,
    more?: Record<string, string>,
    header?: Members,
  ) => exchange(await platform.sign(claims(changed), header), more);
  const list = async () =>
    (await requestManagement(system, 'GET', '/workloads')) as { items: Members[] };
  const rule = async (id: string) => (await list()).items.find((item) => item['id'] === id);
  const act = (id: string, action: string) =>
    requestManagement(system, 'POST', `/workloads/${action}`, { id });

  it('WIF-01 a JWT of the platform becomes an access token of one connect link, without a client', async () => {
    const { status, body } = await exchangeClaims({}, { client_id: 'whatever-the-user-chose' });
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body).to.include({ token_type: 'Bearer', scope: 'operations' });
    expect(body).to.not.have.property('refresh_token');
    const token = decodeJwt(String(body['access_token']));
    expect(token).to.include({
      sub: 'workload:cluster:reporter',
      client_id: 'workload:cluster:reporter',
      aud: link,
    });
    expect(Number(token.exp) - Number(token.iat)).to.equal(600);
    expect(await isAccepted(link, String(body['access_token']))).to.equal(true);
    const lower = await exchangeClaims({}, { scope: 'analytics' });
    expect(lower.body['scope']).to.equal('analytics');
    expect(await rule('cluster:reporter')).to.deep.include({
      state: 'active',
      level: 'operations',
    });
    expect((await rule('cluster:reporter'))?.['subjects']).to.have.nested.property(
      '[0].subject',
      SUBJECT,
    );
    const { uses } = (await requestManagement(
      system,
      'GET',
      `/connectors/${link.split('/').at(-2) ?? ''}`,
    )) as Members;
    expect(uses).to.equal(1);
  });

  it('WIF-02 a token ends at the latest a minute after its JWT', async () => {
    const { body } = await exchangeClaims({ exp: now() + 100 });
    expect(Number(body['expires_in'])).to.be.within(150, 160);
    const late = await exchangeClaims({ iat: now() - 300, exp: now() - 59 });
    // In the last second there is no token.
    expect(late.status === 400 || Number(late.body['expires_in']) <= 1).to.equal(true);
  });

  it('WIF-07 a pause ends the tokens of first exchanges at once, too', async () => {
    await act('cluster:pair-one', 'pause');
    await act('cluster:pair-one', 'resume');
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => exchangeClaims({ sub: 'pair' }, { resource: pairsLink })),
    );
    const tokens = answers.map(({ body }) => String(body['access_token']));
    expect(answers.map(({ status }) => status)).to.deep.equal(answers.map(() => 200));
    await act('cluster:pair-one', 'pause');
    for (const token of tokens)
      expect((await callTool(pairsLink, token, 'club_overview')).status).to.equal(401);
    await act('cluster:pair-one', 'resume');
  });

  const REFUSALS: [what: string, changed: () => Members, words: RegExp][] = [
    ['another audience', () => ({ aud: 'https://kubernetes.default.svc' }), /its only aud must be/],
    ['two audiences', () => ({ aud: [system.auth, 'https://other.example'] }), /its only aud/],
    ['a year of life', () => ({ exp: now() + 31_536_000 }), /longer than maxLifetime/],
    ['no iat', () => ({ iat: undefined }), /must have iat and exp/],
    ['no exp', () => ({ exp: undefined }), /must have iat and exp/],
    ['a time in the future', () => ({ iat: now() + 300, exp: now() + 600 }), /not valid yet/],
    ['nbf alone in the future', () => ({ nbf: now() + 300 }), /not valid yet/],
    ['a time in the past', () => ({ iat: now() - 900, exp: now() - 300 }), /has expired/],
    ['no subject', () => ({ sub: undefined }), /must have a sub/],
    [
      'another issuer',
      () => ({ iss: `${platform.issuer}/` }),
      /issuer of the assertion is not trusted/,
    ],
    [
      'another namespace',
      () => ({ sub: 'system:serviceaccount:billing-evil:reporter' }),
      /claim sub does not match the rule reporter/,
    ],
    [
      'another account of the same name',
      () => ({ 'kubernetes.io': { serviceaccount: { uid: 'x' } } }),
      /claim \/kubernetes\.io\/serviceaccount\/uid does not match/,
    ],
    ['no such claim', () => ({ 'kubernetes.io': undefined }), /does not match the rule/],
    ['a key that binds it', () => ({ cnf: { jkt: 'x' } }), /bound to a key/],
  ];
  for (const [what, changed, words] of REFUSALS)
    it(`WIF-03 a JWT with ${what} is refused with invalid_grant, which names the check`, async () => {
      const { status, body } = await exchangeClaims(changed());
      expect([status, body['error']]).to.deep.equal([400, 'invalid_grant']);
      expect(body['error_description']).to.match(words);
    });

  it('WIF-03 JWTs of another type, with an unannounced algorithm or another signature are refused', async () => {
    const described = async (header: Members) =>
      (await exchangeClaims({}, {}, header)).body['error_description'];
    expect(await described({ typ: 'wit+jwt' })).to.match(/the typ of the assertion must be/);
    expect(await described({ typ: 'at+jwt' })).to.match(/the typ of the assertion must be/);
    for (const typ of ['JWT', 'JOSE', 'authorization-grant+jwt'])
      expect((await exchangeClaims({}, {}, { typ })).status, typ).to.equal(200);
    const [head = '', body = ''] = (await platform.sign(claims())).split('.');
    const forged = await exchange(`${head}.${body}.${'A'.repeat(86)}`);
    expect(forged.body['error_description']).to.match(/not signed with a published key/);
    const unsigned = { alg: 'none', kid: 'first' };
    const none = `${Buffer.from(JSON.stringify(unsigned)).toString('base64url')}.${body}.`;
    expect((await exchange(none)).body['error_description']).to.match(/public-key algorithm/);
    const { privateKey } = await generateKeyPair('EdDSA');
    const announced = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'EdDSA', kid: 'first' })
      .sign(privateKey);
    expect((await exchange(announced)).body['error_description']).to.match(/issuer announces/);
    expect((await exchange('no-jwt')).body['error']).to.equal('invalid_grant');
  });

  it('WIF-04 resource names one connect link that a rule of the issuer is about, else invalid_target', async () => {
    for (const resource of [other, system.resource, 'https://elsewhere.example/mcp', '']) {
      const { status, body } = await exchangeClaims({}, { resource });
      expect([status, body['error']], resource).to.deep.equal([400, 'invalid_target']);
    }
  });

  it('WIF-05 two rules of a connect link that match are refused, and a rule by name counts only if one connector has it', async () => {
    const both = await exchangeClaims(
      { sub: 'pair', team: ['green', 'blue'] },
      { resource: pairsLink },
    );
    expect(both.body['error_description']).to.match(/several rules about this connect link/);
    const one = await exchangeClaims({ sub: 'pair' }, { resource: pairsLink });
    expect(one.status).to.equal(200);
    const second = await createConnector(system, { name: 'Pairs' });
    const ambiguous = await exchangeClaims({ sub: 'pair' }, { resource: pairsLink });
    expect(ambiguous.body['error']).to.equal('invalid_target');
    await revokeConnector(system, second.id);
  });

  it('WIF-06 a registered client is no workload, and the engine knows no other client for them', async () => {
    const metadata = {
      redirect_uris: ['http://127.0.0.1:7070/callback'],
      token_endpoint_auth_method: 'none',
    };
    const registered = await fetch(`${system.auth}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(metadata),
    });
    const { client_id: id } = (await registered.json()) as { client_id: string };
    const { status, body } = await exchangeClaims({}, { client_id: id });
    expect([status, body['error']]).to.deep.equal([401, 'invalid_client']);
    for (const grant_type of ['client_credentials', 'refresh_token', 'authorization_code']) {
      const refused = await exchange('x', { grant_type, client_id: 'workload:any' });
      expect(refused.status, grant_type).to.be.within(400, 401);
    }
    const idJag = await exchangeClaims(
      {},
      { client_id: 'workload:any' },
      { typ: 'oauth-id-jag+jwt' },
    );
    expect(idJag.body['error']).to.equal('invalid_client');
  });

  it('WIF-06 a client_id that is no client of ours is ignored, also an address', async () => {
    for (const client_id of ['https://agents.example.com/workload', 'https://a.example/', '%'])
      expect((await exchangeClaims({}, { client_id })).body, client_id).to.include({
        scope: 'operations',
      });
  });

  it('WIF-23 introspection says that a token of a workload is active as long as its rule gives its level', async () => {
    const { body } = await exchangeClaims();
    const token = String(body['access_token']);
    const facts = async () => {
      const url = `${system.auth}/oauth/introspect`;
      const { status, text } = await postToken(url, RESOURCE_SERVER, token);
      return [status, JSON.parse(text)] as const;
    };
    const [status, claimsOfToken] = await facts();
    expect([status, claimsOfToken.error]).to.deep.equal([200, undefined]);
    const subject = 'workload:cluster:reporter';
    expect(claimsOfToken).to.include({ active: true, sub: subject, client_id: subject, aud: link });
    const inactive = [200, { active: false }] as const;
    const expires = new Date(Date.now() - 1000).toISOString();
    const issuerWith = (changes: Members) => ({
      id: 'cluster',
      issuer: platform.issuer,
      workloads: [{ ...reporter, ...changes }],
    });
    for (const trustedIssuers of [
      [],
      [issuerWith({ expires })],
      [issuerWith({ level: 'analytics' })],
      [issuerWith({ connector: 'Other' })],
    ]) {
      const changed = { authorization: { ...authorization, trustedIssuers } };
      const restore = changeSettings(system, changed);
      try {
        await requestManagement(system, 'POST', '/settings/reload', {});
        expect(await facts(), JSON.stringify(trustedIssuers)).to.deep.equal(inactive);
      } finally {
        restore();
        await requestManagement(system, 'POST', '/settings/reload', {});
      }
    }
    expect((await facts())[1]).to.include({ active: true });
    await act('cluster:reporter', 'pause');
    expect(await facts()).to.deep.equal(inactive);
    await act('cluster:reporter', 'resume');
  });

  it('WIF-07 a rule that is paused ends its tokens and gives none until it is resumed, and one that was ended never again', async () => {
    const { body } = await exchangeClaims();
    const token = String(body['access_token']);
    await act('cluster:reporter', 'pause');
    expect((await callTool(link, token, 'club_overview')).status).to.equal(401);
    expect((await exchangeClaims()).body['error_description']).to.match(/paused the rule/);
    expect(await rule('cluster:reporter')).to.include({ state: 'paused' });
    await act('cluster:reporter', 'resume');
    const again = await exchangeClaims();
    expect(await isAccepted(link, String(again.body['access_token']))).to.equal(true);
    const events = (await readAudit(system)).map(({ event }) => event);
    expect(events).to.include.members(['workload_paused', 'workload_resumed', 'grant_vouched']);
  });

  it('WIF-07 a rule that was resumed, and one whose connection an administrator ended, share the use of the link that they had', async () => {
    const { id, link: single } = await createConnector(system, { name: 'Single', maxUses: 1 });
    const answer = () => exchangeClaims({ team: 'gold' }, { resource: single });
    expect((await answer()).status).to.equal(200);
    await act('cluster:single', 'pause');
    await act('cluster:single', 'resume');
    const resumed = await answer();
    expect(resumed.body).to.not.have.property('error_description');
    const { grant_id: grant } = decodeJwt(String(resumed.body['access_token']));
    await requestManagement(system, 'DELETE', `/grants/${String(grant)}`);
    const again = await answer();
    expect(again.body).to.not.have.property('error_description');
    const { uses } = (await requestManagement(system, 'GET', `/connectors/${id}`)) as Members;
    expect(uses).to.equal(1);
  });

  it('WIF-08 a limit on the calls of a rule counts all its calls', async () => {
    const { link: limited } = await createConnector(system, { name: 'Limited' });
    const { body } = await exchangeClaims({ team: 'red' }, { resource: limited });
    const token = String(body['access_token']);
    for (let n = 0; n < 2; n += 1) await isAccepted(limited, token);
    const { rpc } = await callTool(limited, token, 'club_overview');
    expect(rpc?.result?.content?.[0]?.text).to.include('of this workload is reached (2/10m)');
  });

  it('WIF-09 keys that cannot be fetched, and an unknown key within a minute of the last fetch, are 503', async () => {
    await exchangeClaims();
    const before = platform.fetches();
    await platform.rotate();
    const early = await exchangeClaims();
    expect([early.status, early.body['error']]).to.deep.equal([503, 'temporarily_unavailable']);
    expect(early.headers.get('retry-after')).to.match(/^\d+$/);
    expect(platform.fetches()).to.equal(before);
    advanceClock(61);
    expect((await exchangeClaims()).status).to.equal(200);
    platform.fail(true);
    advanceClock(61);
    expect((await exchangeClaims({}, {}, { kid: 'unknown' })).status).to.equal(503);
    platform.fail(false);
  });

  it('APL-05 a dry run of a reload names the workload whose rule would end, have a lower level or fewer tools', async () => {
    await exchangeClaims();
    const { grant } = (await rule('cluster:reporter')) ?? {};
    const preview = async (changes: Members | undefined) => {
      const workloads = [{ ...reporter, ...changes }];
      const trusted = { id: 'cluster', issuer: platform.issuer, workloads };
      const trustedIssuers = changes ? [trusted] : [];
      const restore = changeSettings(system, { authorization: { trustedIssuers } });
      const { affected } = (await requestManagement(system, 'POST', '/settings/reload', {
        dryRun: true,
      })) as Reload;
      restore();
      return affected?.find(({ grantId }) => grantId === grant);
    };
    expect((await preview(undefined))?.after).to.include({
      state: 'refused',
      reason: 'workload_gone',
    });
    const expires = new Date(Date.now() - 1000).toISOString();
    expect((await preview({ expires }))?.after).to.include({ reason: 'workload_gone' });
    expect((await preview({ level: 'analytics' }))?.after).to.include({ level: 'analytics' });
    expect(await preview({ tools: ['club_*'] })).to.include({ mayLoseUnknown: true });
    expect(await preview({})).to.equal(undefined);
  });

  it('WIF-10 the rule of a revoked connector and a rule that left the settings give nothing, and issued tokens are refused', async () => {
    const { body } = await exchangeClaims();
    const token = String(body['access_token']);
    expect(await isAccepted(link, token)).to.equal(true);
    const restore = changeSettings(system, { authorization: { trustedIssuers: [] } });
    await requestManagement(system, 'POST', '/settings/reload', {});
    await until(
      'the token to be refused',
      async () => (await callTool(link, token, 'club_overview')).status === 401,
    );
    restore();
    await requestManagement(system, 'POST', '/settings/reload', {});
    await act('cluster:reporter', 'end');
    expect((await exchangeClaims()).body['error']).to.equal('invalid_target');
    expect(await rule('cluster:reporter')).to.include({ state: 'ended' });
  });
});
