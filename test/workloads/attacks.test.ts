// JWTs that an attacker could have, each against the rules of the documents.
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { expect } from 'chai';
import { exportJWK, exportSPKI, generateKeyPair, importJWK, SignJWT } from 'jose';
import { parse } from 'yaml';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { githubClaims, kubernetesClaims } from '../support/platform-tokens.ts';
import { startSystem, type System } from '../support/system.ts';
import {
  exchangeJwt,
  type Members,
  type Platform,
  startPlatform,
} from '../support/workload-platform.ts';

const DOCUMENT = readFileSync(join(import.meta.dirname, '../../config/workloads.md'), 'utf8');
const APP = { id: 'agent', secret: 'a-secret-of-a-client-that-is-long-enough' };

/** The rules of the example whose issuer has this id. */
function documentedRules(id: string): Members[] {
  const blocks = [...DOCUMENT.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text = '']) =>
    parse(text),
  );
  const issuers = blocks.flatMap(({ authorization }) => authorization.trustedIssuers);
  const found = issuers.find((issuer) => issuer.id === id);
  if (!found) throw new Error(`the document has no example ${id}`);
  return found.workloads;
}

describe('Attacks on workloads', () => {
  let github: Platform;
  let cluster: Platform;
  let provider: Platform;
  let system: System;
  const links = new Map<string, string>();
  before(async () => {
    github = await startPlatform({ alg: 'RS256' });
    cluster = await startPlatform();
    provider = await startPlatform();
    const uid = {
      id: 'uid',
      match: {
        subject: 'system:serviceaccount:billing:reporter',
        claims: { '/kubernetes.io/serviceaccount/uid': 'b7f3a1c2-0000-4000-8000-000000000001' },
      },
      connector: 'Uids',
      level: 'operations',
    };
    const trustedIssuers = [
      { id: 'github', issuer: github.issuer, workloads: documentedRules('github') },
      {
        id: 'cluster',
        issuer: cluster.issuer,
        jwksUri: `${cluster.issuer}/keys`,
        workloads: [...documentedRules('cluster'), uid],
        clients: [APP.id],
      },
    ];
    const { secret, id } = APP;
    const preRegistered = [
      { id, name: 'Agent', redirectUris: ['https://agent.example.com/cb'], secret },
    ];
    system = await startSystem({
      file: { authorization: { trustedIssuers }, clients: { preRegistered } },
    });
    for (const name of ['Deployments', 'Reports', 'Uids'])
      links.set(name, (await createConnector(system, { name, level: 'admin' })).link);
  });
  after(async () => {
    await system?.stop();
    await Promise.all([github, cluster, provider].map((each) => each?.stop()));
  });

  const now = () => Math.floor(Date.now() / 1000);
  const linkOf = (name: string) => links.get(name) ?? '';
  const present = (assertion: string, name: string, more: Record<string, string> = {}) =>
    exchangeJwt(system.auth, { assertion, resource: linkOf(name), ...more });
  const fromGithub = async (changed: Members = {}) =>
    present(await github.sign(githubClaims(github.issuer, system.auth, changed)), 'Deployments');
  const fromCluster = async (changed: Members & { account?: Members } = {}, name = 'Reports') =>
    present(await cluster.sign(kubernetesClaims(cluster.issuer, system.auth, changed)), name);
  const rules = async () =>
    ((await requestManagement(system, 'GET', '/workloads')) as { items: Members[] }).items;

  it('WIF-17 a job of GitHub Actions gets a token with the new and with the old form of its subject', async () => {
    const { status, body } = await fromGithub();
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(Number(body['expires_in'])).to.be.within(350, 365);
    expect(await isAccepted(linkOf('Deployments'), String(body['access_token']))).to.equal(true);
    expect((await fromGithub({ sub: 'repo:acme/app:ref:refs/heads/main' })).status).to.equal(200);
    const [deploy] = await rules();
    expect(deploy?.['subjects']).to.have.nested.property(
      '[1].subject',
      'repo:acme@1234567/app@7654321:ref:refs/heads/main',
    );
  });

  const GITHUB: [what: string, changed: Members | (() => Members), words: RegExp][] = [
    ['an owner of the same name', { repository_owner_id: '999' }, /repository_owner_id/],
    ['another repository of the owner', { repository_id: '999' }, /claim repository_id/],
    ['another branch', { ref: 'refs/heads/main2' }, /claim ref does not match the rule deploy/],
    ['a branch of a longer name', { ref: 'refs/heads/main/x' }, /claim ref/],
    ['a tag', { ref: 'refs/tags/main', ref_type: 'tag' }, /claim ref/],
    ['a pull request', { event_name: 'pull_request_target' }, /claim event_name/],
    ['another audience', { aud: 'https://github.com/acme' }, /its only aud must be/],
    [
      'a clock two minutes ahead',
      () => ({ iat: Math.floor(Date.now() / 1000) + 120 }),
      /not valid yet/,
    ],
  ];
  for (const [what, changed, words] of GITHUB)
    it(`WIF-17 a job of GitHub Actions with ${what} gets nothing`, async () => {
      const before = await rules();
      const { status, body } = await fromGithub({
        sub: 'repo:attacker',
        ...(typeof changed === 'function' ? changed() : changed),
      });
      expect([status, body['error']]).to.deep.equal([400, 'invalid_grant']);
      expect(body['error_description']).to.match(words);
      expect(await rules()).to.deep.equal(before);
    });

  it('WIF-17 an environment whose name imitates a branch changes nothing', async () => {
    const sub = 'repo:acme@1234567/app@7654321:environment:x%3Aref%3Arefs/heads/main';
    const { body } = await fromGithub({ sub, environment: 'x', ref: 'refs/heads/evil' });
    expect(body['error_description']).to.match(/claim ref/);
  });

  it('WIF-17 a projected token of a service account gets a token, also without jti and with a warning time', async () => {
    const { status, body } = await fromCluster();
    expect(status, JSON.stringify(body)).to.equal(200);
    expect(body['expires_in']).to.equal(600);
    expect((await fromCluster({ jti: undefined })).status).to.equal(200);
    expect((await fromCluster({ iat: now() + 2, nbf: now() + 2 })).status).to.equal(200);
    expect((await fromCluster({}, 'Uids')).status).to.equal(200);
  });

  const CLUSTER: [what: string, changed: Members & { account?: Members }, words: RegExp][] = [
    ['of another namespace', { sub: 'system:serviceaccount:billing2:reporter' }, /claim sub/],
    ['of another account', { sub: 'system:serviceaccount:billing:reporter2' }, /claim sub/],
    ['for the API server', { aud: ['https://kubernetes.default.svc'] }, /its only aud must be/],
    ['with a year of life', { exp: Math.floor(Date.now() / 1000) + 31_536_000 }, /maxLifetime/],
    [
      'of an account that was made again',
      { account: { uid: '00000000-0000-4000-8000-000000000009' } },
      /claim \/kubernetes\.io\/serviceaccount\/uid/,
    ],
  ];
  for (const [what, changed, words] of CLUSTER)
    it(`WIF-17 a token of a cluster ${what} gets nothing`, async () => {
      const { status, body } = await fromCluster(changed, 'Uids');
      expect([status, body['error']]).to.deep.equal([400, 'invalid_grant']);
      expect(body['error_description']).to.match(words);
    });

  it('WIF-17 the same JWT gets a token of each connect link that a rule is about, and none opens another', async () => {
    const assertion = await cluster.sign(kubernetesClaims(cluster.issuer, system.auth));
    const [one, two] = await Promise.all([
      present(assertion, 'Reports'),
      present(assertion, 'Uids'),
    ]);
    const tokens = [one, two].map(({ body }) => String(body['access_token']));
    expect(await isAccepted(linkOf('Reports'), tokens[0])).to.equal(true);
    expect(await isAccepted(linkOf('Uids'), tokens[1])).to.equal(true);
    expect((await callTool(linkOf('Uids'), tokens[0], 'club_overview')).status).to.equal(401);
    expect((await present(assertion, 'Deployments')).body['error']).to.equal('invalid_target');
  });

  it('WIF-18 iss is compared byte for byte, and names one issuer', async () => {
    const { issuer } = cluster;
    for (const iss of [`${issuer}/`, issuer.toUpperCase(), [issuer], { issuer }, undefined, ''])
      expect((await fromCluster({ iss })).body['error_description'], String(iss)).to.match(
        /issuer of the assertion is not trusted/,
      );
    // The keys of one trusted issuer are none of another.
    const confused = await github.sign(kubernetesClaims(issuer, system.auth), { kid: 'first' });
    expect((await present(confused, 'Reports')).body['error']).to.equal('invalid_grant');
  });

  const encoded = (value: unknown) =>
    Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

  it('WIF-18 a JWT without a signature, or signed with a public key as a shared secret, is refused', async () => {
    const body = encoded(kubernetesClaims(cluster.issuer, system.auth));
    const publicKey = await importJWK(cluster.publicKey(), 'ES256');
    const secrets = [
      await exportSPKI(publicKey as never),
      JSON.stringify(cluster.publicKey()),
      String(cluster.publicKey().x),
    ];
    for (const alg of ['none', 'NONE', 'None', '', undefined]) {
      const head = encoded({ alg, typ: 'JWT', kid: 'first' });
      expect((await present(`${head}.${body}.`, 'Reports')).status, String(alg)).to.equal(400);
    }
    for (const alg of ['HS256', 'HS384', 'HS512'])
      for (const secret of secrets) {
        const signed = `${encoded({ alg, typ: 'JWT', kid: 'first' })}.${body}`;
        const mac = createHmac(`sha${alg.slice(2)}`, secret)
          .update(signed)
          .digest('base64url');
        const { body: answer } = await present(`${signed}.${mac}`, 'Reports');
        expect(answer['error_description']).to.match(/public-key algorithm/);
      }
  });

  it('WIF-18 keys that the JWT itself brings or names are not used, and nothing is fetched from them', async () => {
    const requests: string[] = [];
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
    const jwk = { ...(await exportJWK(publicKey)), kid: 'evil', use: 'sig' };
    const evil = await listenOnLoopback(
      createServer((req, res) => {
        requests.push(req.url ?? '');
        res.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: [jwk] }));
      }),
    );
    const claims = kubernetesClaims(cluster.issuer, system.auth);
    const headers: Members[] = [
      { jwk, kid: 'first' },
      { jku: `${evil.origin}/keys`, kid: 'first' },
      { x5u: `${evil.origin}/chain.pem`, kid: 'first' },
      { x5c: [encoded('certificate')], kid: 'first' },
      { kid: `${evil.origin}/keys` },
      { kid: '../../first' },
      { kid: '__proto__' },
      { kid: ['first'] },
      { kid: 0 },
      { kid: "first' OR '1'='1" },
    ];
    for (const header of headers) {
      const forged = await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', ...header } as never)
        .sign(privateKey);
      const { status } = await present(forged, 'Reports');
      // An unknown key id may be newer than the last fetch.
      expect([400, 503], JSON.stringify(header)).to.include(status);
    }
    await evil.stop();
    expect(requests).to.deep.equal([]);
  });

  it('WIF-18 critical extensions, other encodings, encrypted and detached JWTs are refused', async () => {
    const claims = kubernetesClaims(cluster.issuer, system.auth);
    const valid = await cluster.sign(claims);
    const [head = '', body = '', signature = ''] = valid.split('.');
    const critical = await cluster.sign(claims);
    const [, criticalBody] = critical.split('.');
    const withHeader = (header: Members) => `${encoded(header)}.${criticalBody}.${signature}`;
    const wrong = [
      withHeader({ alg: 'ES256', kid: 'first', crit: ['exp'], exp: 1 }),
      withHeader({ alg: 'ES256', kid: 'first', crit: ['b64'], b64: false }),
      withHeader({ alg: 'ES256', kid: 'first', crit: [] }),
      `${head}..${signature}`,
      `${head}.${body}`,
      `${head}.${body}.${signature}.x.y`,
      `${head}.${body}.${signature}=`,
      ` ${valid}`,
      JSON.stringify({ payload: body, protected: head, signature }),
      `${head}.${encoded('[]')}.${signature}`,
      `${head}.${encoded('"text"')}.${signature}`,
      `${encoded('null')}.${body}.${signature}`,
    ];
    for (const assertion of wrong) {
      const { status, body: answer } = await present(assertion, 'Reports');
      expect([status, answer['error']], assertion.slice(0, 60)).to.deep.equal([
        400,
        'invalid_grant',
      ]);
    }
    const huge = await cluster.sign({ ...claims, padding: 'x'.repeat(20_000) });
    expect((await present(huge, 'Reports')).status).to.equal(413);
    const two = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: valid,
      resource: linkOf('Reports'),
    });
    two.append('assertion', valid);
    const doubled = await fetch(`${system.auth}/oauth/token`, { method: 'POST', body: two });
    expect(doubled.status).to.equal(400);
  });

  it('WIF-18 of duplicated claims, the last one counts, as for the signature of its issuer', async () => {
    const claims = kubernetesClaims(cluster.issuer, system.auth);
    const text = JSON.stringify(claims);
    const twice = (first: Members) => `${JSON.stringify(first).slice(0, -1)},${text.slice(1)}`;
    const last = (more: Members) => `${text.slice(0, -1)},${JSON.stringify(more).slice(1)}`;
    const signText = (payload: string) => cluster.signText(payload);
    const good = await signText(twice({ sub: 'system:serviceaccount:evil:evil' }));
    expect((await present(good, 'Reports')).status).to.equal(200);
    for (const more of [{ sub: 'x:y' }, { aud: 'https://other.example' }, { exp: 1 }]) {
      const { body } = await present(await signText(last(more)), 'Reports');
      expect(body['error'], JSON.stringify(more)).to.equal('invalid_grant');
    }
  });

  it('WIF-19 an assertion about a person is no JWT of a workload, and the reverse', async () => {
    const claims = {
      ...kubernetesClaims(cluster.issuer, system.auth),
      aud: system.auth,
      client_id: APP.id,
      resource: linkOf('Reports'),
      exp: now() + 300,
    };
    const basic = `Basic ${Buffer.from(`${APP.id}:${APP.secret}`).toString('base64')}`;
    const idJag = await cluster.sign(claims, { typ: 'oauth-id-jag+jwt' });
    const alone = await present(idJag, 'Reports');
    expect([400, 401]).to.include(alone.status);
    expect(['invalid_client', 'invalid_request']).to.include(alone.body['error']);
    for (const typ of ['JWT', undefined, 'authorization-grant+jwt']) {
      const jwt = await cluster.sign(claims, { typ });
      const form = { assertion: jwt, resource: linkOf('Reports') };
      const { status, body } = await exchangeJwt(system.auth, form, { authorization: basic });
      expect([status, body['error']], String(typ)).to.deep.equal([401, 'invalid_client']);
    }
    for (const typ of [
      'oauth-id-jag',
      'at+jwt',
      'dpop+jwt',
      'logout+jwt',
      'wit+jwt',
      'secevent+jwt',
      5,
    ])
      expect(
        (await present(await cluster.sign(claims, { typ }), 'Reports')).body['error_description'],
        String(typ),
      ).to.match(/the typ of the assertion must be/);
  });

  it('WIF-19 an access token of Gatehouse is no JWT of a workload', async () => {
    const { body } = await fromCluster();
    const own = await present(String(body['access_token']), 'Reports');
    expect(own.body['error']).to.equal('invalid_grant');
  });
});

describe('An issuer of workloads that is also a sign-in provider', () => {
  let provider: Platform;
  before(async () => {
    provider = await startPlatform();
  });
  after(() => provider.stop());

  it('WIF-19 people who sign in there are no workloads, and neither are workloads without a rule', async () => {
    const identityProvider = {
      issuer: provider.issuer,
      clientId: 'gatehouse',
      clientSecret: 'a-secret-of-the-provider-0123456789',
    };
    const workloads = [
      { id: 'bot', match: { subject: 'bot' }, connector: 'Jobs', level: 'analytics' },
    ];
    const settings = { GATEHOUSE_DEVELOPMENT_IDP_URL: '' };
    const shared = { developmentIdp: undefined, identityProvider };
    const without = await startSystem({ settings, file: shared });
    const trustedIssuers = [{ id: 'provider-bots', issuer: provider.issuer, workloads }];
    const withRule = await startSystem({
      settings,
      file: { ...shared, authorization: { trustedIssuers } },
    });
    try {
      const iat = Math.floor(Date.now() / 1000);
      const token = (system: System, changed: Members = {}) =>
        provider.sign({
          iss: provider.issuer,
          sub: 'bot',
          aud: system.auth,
          iat,
          exp: iat + 300,
          ...changed,
        });
      const { link } = await createConnector(withRule, { name: 'Jobs' });
      const trusted = { assertion: await token(withRule), resource: link };
      expect((await exchangeJwt(withRule.auth, trusted)).status).to.equal(200);
      const idToken = await token(withRule, { aud: 'gatehouse', nonce: 'n' });
      const person = await exchangeJwt(withRule.auth, { assertion: idToken, resource: link });
      expect(person.body['error_description']).to.match(/its only aud must be/);
      const other = await createConnector(without, { name: 'Jobs' });
      const unknown = { assertion: await token(without), resource: other.link };
      const refused = await exchangeJwt(without.auth, unknown);
      expect(refused.status).to.equal(400);
      expect(refused.body).to.not.have.property('access_token');
    } finally {
      await Promise.all([without.stop(), withRule.stop()]);
    }
  });
});
