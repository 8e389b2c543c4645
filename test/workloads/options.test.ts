import { expect } from 'chai';
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  createConnector,
  showGrant,
  readAllAudit,
  readAudit,
  requestManagement,
} from '../support/management-api.ts';
import { call, callTool, isAccepted } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  exchangeJwt,
  type Members,
  type Platform,
  startPlatform,
} from '../support/workload-platform.ts';

const HOUR = 3600;
const DAY = 86_400;

/** By type of key; none names its algorithm. */
const ALGORITHMS = {
  RS256: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ES256: ['ES256'],
  ES384: ['ES384'],
  ES512: ['ES512'],
  EdDSA: ['EdDSA', 'Ed25519'],
};

describe('The options of workloads', () => {
  const SIGNATURES = 'https://signatures.example';
  const signingKeys = new Map<string, JWK>();
  let platform: Platform;
  let once: Platform;
  let system: System;
  const links = new Map<string, string>();
  const rule = (id: string, match: object, more: object = {}) => {
    return { id, match, connector: 'Jobs', level: 'operations', ...more };
  };
  before(async () => {
    platform = await startPlatform();
    once = await startPlatform();
    const expires = new Date((now() + 2 * DAY) * 1000).toISOString();
    const workloads = [
      rule('any', { subject: 'job' }),
      rule('number', { claims: { run: '17', protected: 'true' } }, { connector: 'Claims' }),
      rule('pointer', { claims: { '/a~1b/c~0d': 'deep' } }, { connector: 'Pointers' }),
      rule('list', { claims: { groups: 'team:*' } }, { connector: 'Lists' }),
      rule('ending', { subject: 'job' }, { connector: 'Ending', expires }),
      rule(
        'tools',
        { subject: 'job' },
        { connector: 'Tools', tools: ['club_overview'], calls: '3/10m' },
      ),
    ];
    const trustedIssuers = [
      {
        id: 'platform',
        issuer: platform.issuer,
        workloads,
        maxLifetime: '12h',
        audiences: ['api://gatehouse'],
      },
      {
        id: 'once',
        issuer: once.issuer,
        workloads: [rule('any', { subject: 'job' })],
        singleUse: true,
      },
    ];
    const keys = await Promise.all(
      Object.keys(ALGORITHMS).map(async (kid) => {
        const { privateKey, publicKey } = await generateKeyPair(kid, { extractable: true });
        signingKeys.set(kid, await exportJWK(privateKey));
        return { ...(await exportJWK(publicKey)), kid };
      }),
    );
    const signatures = {
      id: 'signatures',
      issuer: SIGNATURES,
      jwks: { keys },
      workloads: [rule('any', { subject: 'job' })],
    };
    system = await startSystem({
      file: { authorization: { trustedIssuers: [...trustedIssuers, signatures] } },
    });
    for (const name of ['Jobs', 'Claims', 'Pointers', 'Lists', 'Ending', 'Tools', 'Other'])
      links.set(name, (await createConnector(system, { name, level: 'admin' })).link);
  });
  after(async () => {
    await system?.stop();
    await Promise.all([platform, once].map((each) => each?.stop()));
  });
  afterEach(restoreClock);

  /** WebCrypto binds keys to one algorithm. */
  const keyFor = (kid: string, alg: string) => importJWK(signingKeys.get(kid) ?? {}, alg);

  const now = () => Math.floor(Date.now() / 1000);
  const linkOf = (name: string) => links.get(name) ?? '';
  const signed = (changed: Members = {}, by = platform) =>
    by.sign({
      iss: by.issuer,
      sub: 'job',
      aud: system.auth,
      iat: now(),
      exp: now() + 300,
      ...changed,
    });
  const exchange = async (changed: Members, name = 'Jobs', by = platform) =>
    exchangeJwt(system.auth, { assertion: await signed(changed, by), resource: linkOf(name) });

  async function workload(id: string): Promise<Members | undefined> {
    const list = await requestManagement(system, 'GET', '/workloads');
    return (list as { items: Members[] }).items.find((each) => each['id'] === id);
  }
  const grantOf = async (id: string) => String((await workload(id))?.['grant']);

  it('WIF-13 with singleUse, a JWT is accepted once, by its jti or without one by its text', async () => {
    const resource = linkOf('Jobs');
    const [first, second] = await Promise.all([signed({ jti: 'one' }, once), signed({}, once)]);
    for (const assertion of [first, second]) {
      const refused = await exchangeJwt(system.auth, { assertion, resource: linkOf('Other') });
      expect(refused.body['error']).to.equal('invalid_target');
      expect((await exchangeJwt(system.auth, { assertion, resource })).status).to.equal(200);
      const { status, body } = await exchangeJwt(system.auth, { assertion, resource });
      expect([status, body['error']]).to.deep.equal([400, 'invalid_grant']);
      expect(body['error_description']).to.match(/already used/);
    }
    const another = await exchange({ jti: 'one', iat: now() - 1 }, 'Jobs', once);
    expect(another.body['error_description']).to.match(/already used/);
    expect((await exchange({ jti: 'two' }, 'Jobs', once)).status).to.equal(200);
    const twice = await signed({ jti: 'race' }, once);
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => exchangeJwt(system.auth, { assertion: twice, resource })),
    );
    expect(answers.filter(({ status }) => status === 200)).to.have.lengthOf(1);
  });

  it('WIF-01 without singleUse, a JWT may be used until it expires', async () => {
    const assertion = await signed({ jti: 'many' });
    for (let n = 0; n < 2; n += 1)
      expect(
        (await exchangeJwt(system.auth, { assertion, resource: linkOf('Jobs') })).status,
      ).to.equal(200);
  });

  it('WIF-03 maxLifetime is the longest time from iat to exp', async () => {
    const iat = now();
    expect((await exchange({ iat, exp: iat + 12 * HOUR })).status).to.equal(200);
    const longer = await exchange({ iat, exp: iat + 12 * HOUR + 1 });
    expect(longer.body['error_description']).to.match(/longer than maxLifetime/);
    const ordinary = await exchange({ iat, exp: iat + HOUR + 1 }, 'Jobs', once);
    expect(ordinary.body['error_description']).to.match(/longer than maxLifetime/);
  });

  it('WIF-03 audiences of an issuer are accepted from it alone, each as the only one', async () => {
    const other = { aud: 'api://gatehouse' };
    expect((await exchange(other)).status).to.equal(200);
    expect((await exchange({ aud: ['api://gatehouse'] })).status).to.equal(200);
    const both = { aud: ['api://gatehouse', system.auth] };
    expect((await exchange(both)).body['error']).to.equal('invalid_grant');
    expect((await exchange(other, 'Jobs', once)).body['error']).to.equal('invalid_grant');
    for (const aud of [`${system.auth}/`, [system.auth], `${system.auth}/oauth/token`])
      expect((await exchange({ aud })).status, JSON.stringify(aud)).to.equal(200);
    for (const aud of [linkOf('Jobs'), system.resource, [], '', undefined, 5, [[system.auth, 'x']]])
      expect((await exchange({ aud })).body['error'], JSON.stringify(aud)).to.equal(
        'invalid_grant',
      );
  });

  it('WIF-03 numbers and booleans compare as text, and objects, null and absent claims match nothing', async () => {
    const at = (changed: Members) => exchange(changed, 'Claims').then(({ status }) => status);
    expect(await at({ run: 17, protected: true })).to.equal(200);
    expect(await at({ run: '17', protected: 'true' })).to.equal(200);
    expect(await at({ run: [16, 17], protected: true })).to.equal(200);
    expect(await at({ run: 170, protected: true })).to.equal(400);
    expect(await at({ run: 17, protected: 'True' })).to.equal(400);
    expect(await at({ run: { value: 17 }, protected: true })).to.equal(400);
    expect(await at({ run: null, protected: true })).to.equal(400);
    expect(await at({ protected: true })).to.equal(400);
  });

  it('WIF-03 a JSON pointer names a member within objects alone, with its two escapes', async () => {
    const at = (changed: Members) => exchange(changed, 'Pointers').then(({ status }) => status);
    expect(await at({ 'a/b': { 'c~d': 'deep' } })).to.equal(200);
    expect(await at({ '/a~1b/c~0d': 'deep' })).to.equal(200);
    expect(await at({ 'a/b': 'deep' })).to.equal(400);
    expect(await at({ a: { b: { 'c~d': 'deep' } } })).to.equal(400);
    expect(await at({})).to.equal(400);
  });

  it('WIF-03 a list matches if one of its members does, and a pattern is about the whole text', async () => {
    const at = (changed: Members) => exchange(changed, 'Lists').then(({ status }) => status);
    expect(await at({ groups: ['x', 'team:blue'] })).to.equal(200);
    expect(await at({ groups: 'team:' })).to.equal(200);
    expect(await at({ groups: ['xteam:blue', 'teams:blue', 'team'] })).to.equal(400);
    expect(await at({ groups: [] })).to.equal(400);
    expect(await at({ groups: 'TEAM:blue' })).to.equal(400);
  });

  for (const [kid, algorithms] of Object.entries(ALGORITHMS))
    it(`WIF-03 a JWT with ${algorithms.join(', ')} is accepted with a key that names no algorithm`, async () => {
      for (const alg of algorithms) {
        const claims = { iss: SIGNATURES, sub: 'job', aud: system.auth };
        const assertion = await new SignJWT({ ...claims, iat: now(), exp: now() + 300 })
          .setProtectedHeader({ alg, kid })
          .sign(await keyFor(kid, alg));
        const { status, body } = await exchangeJwt(system.auth, {
          assertion,
          resource: linkOf('Jobs'),
        });
        expect(status, `${alg} ${JSON.stringify(body)}`).to.equal(200);
      }
    });

  it('WIF-10 a rule gives nothing after its end, and its tokens are refused', async () => {
    const link = linkOf('Ending');
    advanceClock(2 * DAY - 120);
    const { status, body } = await exchange({}, 'Ending');
    expect(status).to.equal(200);
    const token = String(body['access_token']);
    expect(await isAccepted(link, token)).to.equal(true);
    advanceClock(180);
    expect((await callTool(link, token, 'club_overview')).status).to.equal(401);
    const late = await exchange({}, 'Ending');
    expect(late.body['error_description']).to.match(/has expired: the rule is ending/);
    expect(await workload('platform:ending')).to.include({ state: 'expired' });
  });

  it('WIF-08 a rule opens its tools alone, and its limit counts the calls that they get', async () => {
    const link = linkOf('Tools');
    const token = String((await exchange({}, 'Tools')).body['access_token']);
    const listed = await call(link, token, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const { tools } = JSON.parse(JSON.stringify(listed.rpc?.result));
    expect(tools.map(({ name }: { name: string }) => name)).to.deep.equal(['club_overview']);
    expect((await callTool(link, token, 'club_overview')).rpc?.result?.isError).to.not.equal(true);
    const refused = await callTool(link, token, 'find_members');
    expect(refused.rpc?.result?.isError ?? refused.rpc?.error !== undefined).to.equal(true);
    for (let n = 0; n < 2; n += 1) expect(await isAccepted(link, token)).to.equal(true);
    const limited = await callTool(link, token, 'club_overview');
    expect(JSON.stringify(limited.rpc)).to.include('of this workload is reached (3/10m)');
  });

  it('WIF-15 a connection whose rule got another level ends for this reason, and its tokens have the new level', async () => {
    const token = String((await exchange({})).body['access_token']);
    const id = await grantOf('platform:any');
    const file = changeSettings(system, {
      authorization: {
        trustedIssuers: [
          {
            id: 'platform',
            issuer: platform.issuer,
            workloads: [rule('any', { subject: 'job' }, { level: 'analytics' })],
          },
        ],
      },
    });
    try {
      await requestManagement(system, 'POST', '/settings/reload', {});
      expect((await exchange({})).body['scope']).to.equal('analytics');
      expect((await exchange({}, 'Other')).body['error']).to.equal('invalid_target');
      expect(await showGrant(system, id)).to.include({ state: 'ended', reason: 'rule_changed' });
      expect((await callTool(linkOf('Jobs'), token, 'club_overview')).status).to.equal(401);
      const items = (await readAudit(system)).filter(({ event }) => event === 'grant_ended');
      expect(items.map(({ reason }) => reason)).to.include('rule_changed');
    } finally {
      file();
      await requestManagement(system, 'POST', '/settings/reload', {});
    }
  });

  it('WIF-15 tokens of a rule that names another connect link now are refused at once, and its connection ends', async () => {
    const token = String((await exchange({})).body['access_token']);
    const id = await grantOf('platform:any');
    const calls = async () => (await callTool(linkOf('Jobs'), token, 'club_overview')).status;
    expect(await calls()).to.equal(200);
    const moved = rule('any', { subject: 'job' }, { connector: 'Other' });
    const trusted = { id: 'platform', issuer: platform.issuer, workloads: [moved] };
    const undo = changeSettings(system, { authorization: { trustedIssuers: [trusted] } });
    try {
      await requestManagement(system, 'POST', '/settings/reload', {});
      expect(await calls()).to.equal(401);
      expect(await showGrant(system, id)).to.include({ state: 'refused', reason: 'workload_gone' });
      expect((await exchange({}, 'Other')).status).to.equal(200);
      expect(await showGrant(system, id)).to.include({ state: 'ended', reason: 'rule_changed' });
    } finally {
      undo();
      await requestManagement(system, 'POST', '/settings/reload', {});
    }
  });

  it('WIF-22 a workload reads with server/discover that its platform is accepted here', async () => {
    const token = String((await exchange({})).body['access_token']);
    const meta = { protocolVersion: '2026-07-28', clientCapabilities: {} };
    const named = Object.entries(meta).map(([name, value]) => [
      `io.modelcontextprotocol/${name}`,
      value,
    ]);
    const params = { _meta: Object.fromEntries(named) };
    const message = { jsonrpc: '2.0', id: 1, method: 'server/discover', params };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' };
    const { rpc, text } = await call(linkOf('Jobs'), token, message, { headers });
    expect(rpc?.result, text).to.have.nested.property('capabilities.extensions');
    expect(text).to.include('"io.modelcontextprotocol/auth/wif":{}');
  });

  it('WIF-14 each call of a workload is on record with its rule and its own subject at the platform', async () => {
    const link = linkOf('Claims');
    const names = ['run of ada', 'run of grace'];
    for (const sub of names) {
      const { body } = await exchange({ run: 17, protected: true, sub }, 'Claims');
      await callTool(link, String(body['access_token']), 'club_overview');
    }
    const calls = async () =>
      (await readAllAudit(system)).filter(
        ({ event, account }) => event === 'call' && account === 'workload:platform:number',
      );
    await until('the calls to be on record', async () => (await calls()).length >= names.length);
    const subjects = (await calls()).map(({ subject }) => subject);
    expect(subjects).to.deep.equal(names);
  });

  it('WIF-14 the audit log has the subject of the platform, and of a refusal the reason, the rule, the claim and its value', async () => {
    await exchange({ sub: 'job', jti: 'audited' });
    await exchange({ sub: 'intruder' });
    await exchange({ run: 18, protected: true, sub: 'someone' }, 'Claims');
    const audit = await readAudit(system);
    const token = audit.findLast(
      ({ event, account }) => event === 'workload_token' && account === 'workload:platform:any',
    );
    expect(token).to.deep.include({ outcome: 'granted' });
    expect(token?.['arguments']).to.include({ name: 'platform:any', subject: 'job' });
    const [first, second] = audit.filter(({ event }) => event === 'workload_refused').slice(-2);
    expect(first).to.include({ reason: 'no_rule', outcome: 'refused' });
    expect(first?.['arguments']).to.deep.include({
      name: 'platform:any',
      subject: 'intruder',
      unmatched: [{ claim: 'sub', pattern: 'job', value: 'intruder' }],
    });
    expect(second?.['arguments']).to.deep.include({
      name: 'platform:number',
      subject: 'someone',
      unmatched: [{ claim: 'run', pattern: '17', value: 18 }],
    });
    // Nobody can fill the log with JWTs that no issuer signed.
    const forged = `${(await signed({ sub: 'forged' })).split('.').slice(0, 2).join('.')}.AAAA`;
    await exchangeJwt(system.auth, { assertion: forged, resource: linkOf('Jobs') });
    expect(JSON.stringify(await readAudit(system))).to.not.include('forged');
  });
});
