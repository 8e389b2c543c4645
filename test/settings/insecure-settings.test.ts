import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
  SECRET,
} from './settings-file.ts';

const OTHER = 'another-secret-of-43-characters-0123456789x';

describe('one secret for two purposes', () => {
  const client = { id: 'reporting', name: 'Reporting', redirectUris: ['https://a.example/cb'] };
  const preRegistered = (...secrets: string[]) => ({
    clients: {
      preRegistered: secrets.map((secret, n) => ({ ...client, id: `client-${n}`, secret })),
    },
  });
  const PAIRS: Record<
    string,
    [setting: string, other: string, file: object, environment?: object]
  > = {
    'the management key equals the root secret': [
      'GATEHOUSE_MANAGEMENT_KEY',
      'GATEHOUSE_SECRET',
      {},
      { GATEHOUSE_MANAGEMENT_KEY: SECRET },
    ],
    'the management key contains the root secret': [
      'GATEHOUSE_MANAGEMENT_KEY',
      'GATEHOUSE_SECRET',
      {},
      { GATEHOUSE_MANAGEMENT_KEY: `${SECRET}-management` },
    ],
    'the root secret contains the management key': [
      'GATEHOUSE_MANAGEMENT_KEY',
      'GATEHOUSE_SECRET',
      {},
      { GATEHOUSE_SECRET: `root-${OTHER}`, GATEHOUSE_MANAGEMENT_KEY: OTHER },
    ],
    'the management key is the previous root secret': [
      'GATEHOUSE_MANAGEMENT_KEY',
      'GATEHOUSE_PREVIOUS_SECRET',
      {},
      { GATEHOUSE_PREVIOUS_SECRET: OTHER, GATEHOUSE_MANAGEMENT_KEY: OTHER },
    ],
    'a client secret equals the root secret': [
      'clients.preRegistered[0].secret',
      'GATEHOUSE_SECRET',
      preRegistered(SECRET),
    ],
    'a client secret equals the management key': [
      'clients.preRegistered[0].secret',
      'GATEHOUSE_MANAGEMENT_KEY',
      preRegistered(OTHER),
      { GATEHOUSE_MANAGEMENT_KEY: OTHER },
    ],
    'two clients have the same secret': [
      'clients.preRegistered[1].secret',
      'clients.preRegistered[0].secret',
      preRegistered(OTHER, OTHER),
    ],
    'the client secret at the identity provider equals the root secret': [
      'identityProvider.clientSecret',
      'GATEHOUSE_SECRET',
      { identityProvider: { ...PRODUCTION.identityProvider, clientSecret: SECRET } },
    ],
  };
  for (const [what, [setting, other, file, environment]] of Object.entries(PAIRS))
    it(`SUP-03 production refuses settings in which ${what}, without showing either`, () => {
      const start = () => loadInProduction({ ...PRODUCTION, ...file }, { ...environment });
      const { issues, message } = refusal(start);
      expect(issues.map((issue) => issue.setting)).to.deep.equal([setting]);
      expect(issues[0]?.expected).to.include(`not ${other} or a part of it`);
      expect(message).not.to.include(SECRET).and.not.to.include(OTHER);
    });

  it('a shared secret is accepted in development, and different secrets in production', () => {
    load(DEVELOPMENT, { GATEHOUSE_SECRET: SECRET, GATEHOUSE_MANAGEMENT_KEY: SECRET });
    loadInProduction(
      { ...PRODUCTION, ...preRegistered(OTHER, `${OTHER.slice(0, -1)}y`) },
      { GATEHOUSE_MANAGEMENT_KEY: OTHER.toUpperCase(), GATEHOUSE_PREVIOUS_SECRET: SECRET },
    );
  });
});

describe('one client secret at two identity providers', () => {
  const { identityProvider: _, ...withoutPeople } = PRODUCTION;
  const tenant = (id: string, clientId: string) => ({
    id,
    name: `Company ${id}`,
    issuer: `https://login.example.com/${id}/v2.0`,
    clientId,
    clientSecret: OTHER,
  });
  const startWith = (...identityProviders: object[]) =>
    loadInProduction({
      ...withoutPeople,
      identityProviders,
      entitlements: [{ match: { anyone: true, provider: 'a' }, level: 'operations' }],
    });

  it('one client may have the same secret at several tenants of a provider', () => {
    const settings = startWith(tenant('a', 'gatehouse'), tenant('b', 'gatehouse'));
    expect(settings.identityProviders).to.have.length(2);
  });

  it('SUP-03 production refuses one secret for two clients', () => {
    const { issues } = refusal(() => startWith(tenant('a', 'gatehouse'), tenant('b', 'other')));
    expect(issues.map(({ setting }) => setting)).to.deep.equal([
      'identityProviders[1].clientSecret',
    ]);
  });
});

describe('an insecure client secret', () => {
  const NONE = [
    '${GATEHOUSE_SECRET:-of-the-deployment}',
    '$(openssl rand -base64 32 > /dev/stdout)',
    '{{ .Values.gatehouse.secret | quote }}',
    '<a long random text of your choice here>',
    'your-root-secret-goes-here-0123456789',
    'replace-this-with-a-long-random-string',
    'insert_a_secret_of_32_characters_here',
    'placeholder-for-the-secret-of-production',
    'example-secret-that-has-enough-characters',
    'super-secret-super-safe-gatehouse-key-1',
    '01234567890123456789012345678901234567',
    'abcdefghijklmnopqrstuvwxyz0123456789',
    'aaaaaaaabbbbbbbbccccccccddddddddeeeeeeee',
    'secret12'.repeat(4),
    '01'.repeat(20),
  ];
  for (const secret of NONE)
    it(`SUP-03 production refuses the client secret ${secret.slice(0, 12)}… without showing it`, () => {
      const { issues, message } = refusal(() =>
        loadInProduction(PRODUCTION, { GATEHOUSE_SECRET: secret }),
      );
      expect(issues.map(({ setting }) => setting)).to.deep.equal(['GATEHOUSE_SECRET']);
      expect(message).to.include('placeholder').and.not.include(secret);
    });

  it('a short hexadecimal secret and one with template characters are accepted', () => {
    for (const clientSecret of ['3f0a3b0fa93b0af3', 'kW$(t9}v;Q2mZ.7b', 'a{{8Lr%$n-Xq)w4G']) {
      const identityProvider = { ...PRODUCTION.identityProvider, clientSecret };
      const settings = loadInProduction({ ...PRODUCTION, identityProvider });
      expect(settings.identityProviders[0]?.clientSecret).to.equal(clientSecret);
    }
  });

  it('a random secret is accepted', () => {
    for (let n = 0; n < 10; n += 1) {
      const bytes = crypto.getRandomValues(Buffer.alloc(32));
      for (const encoding of ['hex', 'base64', 'base64url'] as const) {
        const secret = bytes.toString(encoding).slice(0, 32);
        expect(loadInProduction(PRODUCTION, { GATEHOUSE_SECRET: secret }).secret).to.equal(secret);
      }
    }
  });
});

describe('a shared network', () => {
  for (const network of [
    '0.0.0.0/0',
    '128.0.0.0/1',
    '10.0.0.0/7',
    '::/0',
    '2000::/3',
    '2600::/15',
    '::ffff:0:0/96',
    '0:0:0:0:0:ffff:0:0/97',
  ])
    it(`SUP-03 the shared network ${network} is refused, because it would leave nobody limited`, () => {
      const [issue, ...more] = issuesIn({
        ...DEVELOPMENT,
        limits: { sharedNetworks: [network] },
      });
      expect(issue?.setting).to.match(/^limits\.sharedNetworks\W0/);
      expect(issue?.expected).to.include('limit of their own');
      expect(more).to.deep.equal([]);
    });

  it('a shared network may be as large as that of any organization', () => {
    const sharedNetworks = ['10.0.0.0/8', '2600::/16', '::ffff:10.0.0.0/104', '192.0.2.1/32'];
    expect(
      load({ ...DEVELOPMENT, limits: { sharedNetworks } }).limits.sharedNetworks,
    ).to.deep.equal(sharedNetworks);
  });
});

describe('an issuer', () => {
  const { developmentIdp: _, ...withoutPeople } = DEVELOPMENT;
  const WRONG = [
    'https://login.example.com?tenant=1',
    'https://login.example.com/a?',
    'https://login.example.com#x',
    'https://login.example.com/#',
    'https://ada@login.example.com',
    'https://ada:pass@login.example.com',
  ];
  for (const issuer of WRONG)
    it(`SUP-03 the issuer ${issuer} is refused, because its metadata could not be found`, () => {
      const file = {
        ...withoutPeople,
        identityProvider: { issuer, clientId: 'gatehouse' },
        authorization: {
          trustedIssuers: [{ issuer, jwksUri: 'https://login.example.com/keys', clients: ['app'] }],
        },
        clients: {
          preRegistered: [
            { id: 'app', name: 'App', redirectUris: ['https://a.example/cb'], secret: OTHER },
          ],
        },
      };
      const issues = issuesIn(file);
      expect(issues.map(({ setting }) => setting)).to.deep.equal([
        'identityProvider.issuer',
        'authorization.trustedIssuers[0].issuer',
      ]);
      for (const { expected } of issues) expect(expected).to.match(/without .*(query|\?)/);
    });

  it('SUP-03 the issuer of an identity provider cannot be our own', () => {
    const identityProvider = { issuer: PRODUCTION.authUrl, clientId: 'gatehouse' };
    for (const issuer of [PRODUCTION.authUrl, `${PRODUCTION.authUrl}/`]) {
      const start = () =>
        loadInProduction({ ...PRODUCTION, identityProvider: { ...identityProvider, issuer } });
      const { issues } = refusal(start);
      expect(issues.map(({ setting }) => setting)).to.deep.equal(['identityProvider.issuer']);
      expect(issues[0]?.expected).to.include('not an address of Gatehouse itself');
    }
  });

  it('SUP-03 our public addresses have no path, query, fragment or user name', () => {
    for (const url of ['?a=b', '#x', '/', '/auth'].map((end) => PRODUCTION.authUrl + end))
      for (const setting of ['authUrl', 'resourceUrl', 'managementUrl']) {
        const { issues } = refusal(() => loadInProduction({ ...PRODUCTION, [setting]: url }));
        expect(issues.map((issue) => issue.setting)).to.deep.equal([setting]);
      }
  });
});
