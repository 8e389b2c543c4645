// The doctor says nothing about a good deployment, and finds each fault of a bad one with the check that is made for it, and no other.
import { expect } from 'chai';
import type { DeploymentOptions } from '../../src/doctor/opened-deployment.ts';
import { INTERNET } from '../../src/authorization-server/engine/document-fetch.ts';
import { makeCertificate } from '../authorization-server/metadata-documents/certificate.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';
import type { Passed } from './tls-proxy.ts';

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

type Planted = (good: GoodDeployment) => unknown;
type Fault = {
  fault: string;
  plant: Planted;
  /** The checks that complain. */
  found: string[];
  /** In what one of them says. */
  says: RegExp;
  changed?: (good: GoodDeployment) => Partial<DeploymentOptions>;
};

const outward = (change: (answer: Passed) => void) => (good: GoodDeployment) =>
  good.proxies.auth.misbehave({ outward: change });
const certificate =
  (name: string, days: { from: number; until: number }) => (good: GoodDeployment) =>
    good.proxies.auth.present(makeCertificate(name, days));
const configure = (name: string, value: string) => (good: GoodDeployment) =>
  good.admin.config('SET', name, value);
const nothing = () => undefined;

const FAULTS: Fault[] = [
  {
    fault: 'a proxy that changes Host',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers.host = '127.0.0.1:4000') }),
    found: ['host'],
    says: /arrive with the Host 127\.0\.0\.1:4000/,
  },
  {
    fault: 'a proxy that leaves X-Forwarded-For alone',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({
        inward: (headers) => {
          headers['x-forwarded-for'] = String(headers['x-forwarded-for']).split(', ')[0];
        },
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 0 added/,
  },
  {
    fault: 'one proxy more than the settings say',
    plant: ({ proxies }) =>
      proxies.resource.misbehave({
        inward: (headers) => void (headers['x-forwarded-for'] += ', 10.0.0.7'),
      }),
    found: ['forwarded'],
    says: /proxies is 1, but 2 added/,
  },
  {
    fault: 'a hop without TLS',
    plant: ({ proxies }) =>
      proxies.auth.misbehave({ inward: (headers) => void (headers['x-forwarded-proto'] = 'http') }),
    found: ['forwarded'],
    says: /plain http/,
  },
  {
    fault: 'an issuer that is not the one of the settings',
    plant: outward((answer) => {
      if (answer.path !== WELL_KNOWN || answer.method !== 'GET') return;
      const document = JSON.parse(answer.body);
      answer.body = JSON.stringify({ ...document, issuer: 'https://other.example.com' });
    }),
    found: ['issuer'],
    says: /issuer is https:\/\/other\.example\.com and should be https:\/\/localhost/,
  },
  {
    fault: 'a resource that names another authorization server',
    plant: ({ proxies, authUrl }) =>
      proxies.resource.misbehave({
        outward: (answer) => {
          answer.body = answer.body.replaceAll(authUrl, `${authUrl}/`);
        },
      }),
    found: ['issuer'],
    says: /authorization_servers is .*\/ and should be/,
  },
  {
    fault: 'a token endpoint at another address',
    plant: outward((answer) => {
      answer.body = answer.body.replace(/https:(\/\/[^"]+\/oauth\/token")/, 'http:$1');
    }),
    found: ['issuer'],
    says: /token_endpoint is http:/,
  },
  {
    fault: 'a proxy that answers /.well-known/ itself',
    plant: outward((answer) => {
      if (!answer.path.startsWith('/.well-known/openid')) return;
      Object.assign(answer, { status: 200, body: '<html></html>' });
      answer.headers['content-type'] = 'text/html';
    }),
    found: ['discovery'],
    says: /200 and text\/html in place of a plain 404/,
  },
  {
    fault: 'a challenge that is taken away',
    plant: ({ proxies }) =>
      proxies.resource.misbehave({
        outward: ({ headers }) => delete headers['www-authenticate'],
      }),
    found: ['challenge'],
    says: /WWW-Authenticate is missing/,
  },
  {
    fault: 'preflights that are refused',
    plant: outward((answer) => {
      if (answer.method === 'OPTIONS') answer.status = 405;
    }),
    found: ['cors'],
    says: /preflight is answered with 405/,
  },
  {
    fault: 'Access-Control headers twice',
    plant: outward(({ headers }) => {
      if (headers['access-control-allow-origin'])
        headers['access-control-allow-origin'] = '*, https://inspector.example';
    }),
    found: ['cors'],
    says: /Access-Control-Allow-Origin is \*, https/,
  },
  {
    fault: 'cookies without Secure',
    plant: outward(({ headers }) => {
      headers['set-cookie'] &&= headers['set-cookie'].map((cookie) =>
        cookie.replace(/; secure/i, ''),
      );
    }),
    found: ['cookies'],
    says: /cookie __Host-gatehouse-account is not Secure/,
  },
  {
    fault: 'security headers that are taken away',
    plant: outward(({ headers }) => delete headers['strict-transport-security']),
    found: ['headers'],
    says: /Strict-Transport-Security is missing/,
  },
  {
    fault: 'a clock that is five minutes behind',
    plant: outward(({ headers }) => {
      headers.date = new Date(Date.now() - 300_000).toUTCString();
    }),
    found: ['clock'],
    says: /(299|300|301) s behind/,
  },
  {
    fault: 'a certificate that has expired',
    plant: certificate('localhost', { from: -90, until: -2 }),
    found: ['certificate'],
    says: /expired on/,
  },
  {
    fault: 'a certificate that expires soon, for which nobody vouches',
    plant: certificate('localhost', { from: -80, until: 5.5 }),
    found: ['certificate'],
    says: /expires in 5 days/,
  },
  {
    fault: 'a certificate for another name',
    plant: certificate('auth.example.com', { from: -1, until: 60 }),
    found: ['certificate'],
    says: /is for CN=auth\.example\.com, not for localhost/,
  },
  {
    fault: 'a proxy without Gatehouse behind it',
    plant: ({ proxies }) => proxies.resource.misbehave({ target: () => 1 }),
    found: ['reach'],
    says: /answers 502 in place of Gatehouse/,
  },
  {
    fault: 'the management API at the public address',
    plant: ({ proxies, management }) =>
      proxies.auth.misbehave({
        inward: (headers, path) => {
          if (path.startsWith('/api/')) headers.host = `127.0.0.1:${management}`;
        },
        target: (path) => (path.startsWith('/api/') ? management : undefined),
      }),
    found: ['management'],
    says: /passes the management API on/,
  },
  {
    fault: 'Redis that drops any record',
    plant: configure('maxmemory-policy', 'allkeys-lru'),
    found: ['eviction', 'ready'],
    says: /maxmemory-policy is allkeys-lru/,
  },
  {
    fault: 'Redis that drops records with a lifetime',
    plant: configure('maxmemory-policy', 'volatile-lru'),
    found: ['eviction'],
    says: /maxmemory-policy is volatile-lru/,
  },
  {
    fault: 'Redis without an append-only file',
    plant: configure('appendonly', 'no'),
    found: ['persistence'],
    says: /append-only file is off/,
  },
  {
    fault: 'Redis that never flushes',
    plant: configure('appendfsync', 'no'),
    found: ['persistence'],
    says: /appendfsync is no/,
  },
  {
    fault: 'Redis that is nearly full',
    plant: async ({ admin }) => {
      const [, used = '0'] = /used_memory:(\d+)/.exec(await admin.info('memory')) ?? [];
      await admin.config('SET', 'maxmemory', String(Math.round(Number(used) * 1.15)));
    },
    found: ['memory'],
    says: /Redis uses [789]\d % of its memory/,
  },
  {
    fault: 'another root secret',
    plant: nothing,
    changed: ({ settings }) => ({ settings: { ...settings, secret: 'another-secret'.repeat(3) } }),
    found: ['secret'],
    says: /written with another root secret/,
  },
  {
    fault: 'an identity provider that is down',
    plant: ({ provider }) => provider.behave({ isDown: true }),
    found: ['identity-provider'],
    says: /does not answer from here: the connection was cut/,
  },
  {
    fault: 'an identity provider with another issuer',
    plant: ({ provider }) =>
      provider.behave({ answersWith: { issuer: `${provider.issuer}/tenant` } }),
    found: ['identity-provider-issuer'],
    says: /calls itself https:\/\/localhost:\d+\/tenant/,
  },
  {
    fault: 'a callback that is not registered',
    plant: ({ provider }) => provider.behave({ callback: 'https://old.example.com/callback' }),
    found: ['callback'],
    says: /redirect_uri_mismatch/,
  },
  {
    fault: 'a client secret that was replaced',
    plant: ({ provider }) => provider.behave({ secret: 'another' }),
    found: ['client-secret'],
    says: /refuses Gatehouse \(invalid_client\)/,
  },
  {
    fault: 'a scope that the identity provider does not have',
    plant: ({ provider }) => provider.behave({ answersWith: { scopes_supported: ['openid'] } }),
    found: ['identity-provider'],
    says: /does not offer the scope profile, email/,
  },
  {
    fault: 'metadata documents without a guard',
    plant: nothing,
    changed: () => ({ network: { ...INTERNET, isAllowed: () => true, port: 1 } }),
    found: ['document-guard'],
    says: /fetched from this computer itself/,
  },
  {
    fault: 'everybody may hold everything',
    plant: nothing,
    changed: ({ settings }) => ({
      settings: { ...settings, entitlements: [{ match: { anyone: true }, level: 'full' }] },
    }),
    found: ['settings'],
    says: /everybody who can sign in .* may hold full/,
  },
];

describe('the doctor', () => {
  let good: GoodDeployment;
  before(async function start() {
    this.timeout(40_000);
    good = await startGoodDeployment();
  });
  afterEach(async () => {
    for (const proxy of Object.values(good.proxies)) {
      proxy.misbehave({});
      proxy.present(good.certificate);
    }
    good.provider.behave({});
    await good.admin.config('SET', 'maxmemory-policy', 'noeviction');
    await good.admin.config('SET', 'maxmemory', '0');
    await good.admin.config('SET', 'appendfsync', 'everysec');
    await good.admin.config('SET', 'appendonly', 'yes');
  });
  after(() => good?.stop());

  it('finds nothing to say about a good deployment, and looks at all of it', async () => {
    const findings = await good.look();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    const looked = new Set(findings.map(({ check }) => check));
    const named = new Set(FAULTS.flatMap(({ found }) => found));
    // Only said when there is something to say.
    for (const silent of ['headers', 'ready']) named.delete(silent);
    expect([...looked]).to.include.members([...named]);
  });

  it('finds nothing from outside either, without the settings', async () => {
    const { look, authUrl, resourceUrl } = good;
    const findings = await look({
      authUrl,
      resourceUrl,
      settings: undefined,
    } as Partial<DeploymentOptions>);
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
    expect(findings.map(({ check }) => check)).not.to.include('store');
  });

  it('finds nothing about proxies that put their own X-Forwarded-For in place of what came', async () => {
    for (const proxy of Object.values(good.proxies))
      proxy.misbehave({ inward: (headers) => void (headers['x-forwarded-for'] = '127.0.0.1') });
    const findings = await good.look();
    expect(findings.filter(({ outcome }) => outcome !== 'ok')).to.deep.equal([]);
  });

  for (const { fault, plant, found, says, changed } of FAULTS) {
    it(`finds ${fault}, by ${found.join(' and ')}`, async () => {
      await plant(good);
      const findings = await good.look(changed?.(good));
      const wrong = findings.filter(({ outcome }) => /problem|warning/.test(outcome));
      expect([...new Set(wrong.map(({ check }) => check))].sort()).to.deep.equal(found);
      expect(wrong.map(({ what }) => what).join('\n')).to.match(says);
      for (const finding of wrong) expect(finding).to.include.keys('why', 'remedy');
    });
  }
});
