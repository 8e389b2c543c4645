import { expect } from 'chai';
import { DEVELOPMENT, load, issuesIn, refusal, wrongSettings } from './settings-file.ts';

describe('settings issues', () => {
  it('all issues of file, environment and checks across settings are reported at once', () => {
    const file = {
      ...DEVELOPMENT,
      resourceUrl: 'http://localhost:4001/',
      managementUrl: 'http://127.0.0.1:4000',
      proxies: 9,
      lifetimes: { accessToken: '1w' },
      entitlements: [{ match: { anyone: true, group: 'x' }, level: 'owner' }],
      colour: 'blue',
    };
    const environment = {
      GATEHOUSE_LOG_LEVEL: 'loud',
      GATEHOUSE_AUTH_ULR: 'http://localhost:4000',
      GATEHOUSE_SECRET: 'short',
      GATEHOUSE_MANAGEMENT_KEY: 'short',
    };
    expect(wrongSettings(file, environment)).to.have.members([
      'resourceUrl',
      'managementUrl',
      'proxies',
      'lifetimes.accessToken',
      'entitlements[0].match',
      'entitlements[0].level',
      'colour',
      'GATEHOUSE_LOG_LEVEL',
      'GATEHOUSE_AUTH_ULR',
      'GATEHOUSE_SECRET',
      'GATEHOUSE_MANAGEMENT_KEY',
    ]);
  });

  it('an unknown level in authorization.requireDpop is an issue that lists the levels', () => {
    const authorization = { requireDpop: 'owner' };
    const expected = 'one of analytics, operations, admin, full';
    expect(issuesIn({ ...DEVELOPMENT, authorization })).to.deep.equal([
      { setting: 'authorization.requireDpop', given: '"owner"', expected },
    ]);
  });

  it('the error message has one line for each issue', () => {
    const { message } = refusal(() => load({ ...DEVELOPMENT, proxies: 9, logLevel: 'loud' }));
    expect(message.split('\n')).to.deep.equal([
      'The settings have 2 errors:',
      '  logLevel: given "loud"; expected trace, debug, info, warn, error, fatal or silent',
      '  proxies: given 9; expected a whole number from 0 to 5',
    ]);
  });

  it('an issue names the variable that set the value, or else the path in the file', () => {
    const expected =
      'an address such as https://auth.example.com or http://localhost:4000, in lower case, without a path or a trailing slash';
    const given = '"HTTP://Localhost:1"';
    expect(issuesIn({ ...DEVELOPMENT, authUrl: 'HTTP://Localhost:1' })).to.deep.equal([
      { setting: 'authUrl', given, expected },
    ]);
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_AUTH_URL: 'HTTP://Localhost:1' })).to.deep.equal([
      { setting: 'GATEHOUSE_AUTH_URL', given, expected },
    ]);
  });

  it('an issue of a missing required setting says that nothing was given', () => {
    const { authUrl: _, entitlements: __, ...file } = DEVELOPMENT;
    const issues = issuesIn(file);
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['authUrl', 'entitlements']);
    expect(issues.map(({ given }) => given)).to.deep.equal(['nothing', 'nothing']);
  });

  const WRONG: [name: string, file: object, setting: string][] = [
    ['a path after the address', { authUrl: 'http://localhost:4000/auth' }, 'authUrl'],
    ['another scheme', { resourceUrl: 'ftp://localhost' }, 'resourceUrl'],
    ['a default port written out', { authUrl: 'http://localhost:80' }, 'authUrl'],
    ['port 0 in a public address', { authUrl: 'http://localhost:0' }, 'authUrl'],
    ['a port above 65535', { listen: { auth: '127.0.0.1:65536' } }, 'listen.auth'],
    ['a port without a host', { listen: { auth: ':4000' } }, 'listen.auth'],
    ['a list where a group is expected', { listen: [] }, 'listen'],
    [
      'a number where a duration is expected',
      { lifetimes: { session: 3600 } },
      'lifetimes.session',
    ],
    ['a duration of zero', { lifetimes: { session: '0s' } }, 'lifetimes.session'],
    [
      'an access token lifetime of seconds',
      { lifetimes: { accessToken: '59s' } },
      'lifetimes.accessToken',
    ],
    [
      'an access token lifetime of days',
      { lifetimes: { accessToken: '25h' } },
      'lifetimes.accessToken',
    ],
    [
      'a connection that goes idle before its access token ends',
      { lifetimes: { accessToken: '2h', refreshTokenIdle: '1h' } },
      'lifetimes.refreshTokenIdle',
    ],
    [
      'a connection that ends before it goes idle',
      { lifetimes: { refreshTokenAbsolute: '10d' } },
      'lifetimes.refreshTokenAbsolute',
    ],
    ['an unknown role', { roles: ['admin'] }, 'roles[0]'],
    ['no role at all', { roles: [] }, 'roles'],
    ['an unknown store', { store: 'postgres://localhost/x' }, 'store'],
    ['no entitlement', { entitlements: [] }, 'entitlements'],
    [
      'a domain with an at sign',
      { entitlements: [{ match: { emailDomain: '@example.com' }, level: 'full' }] },
      'entitlements[0].match.emailDomain',
    ],
    [
      'a rule that matches nobody in particular',
      { entitlements: [{ match: {}, level: 'full' }] },
      'entitlements[0].match',
    ],
    [
      'two people with one id',
      {
        developmentIdp: {
          ...DEVELOPMENT.developmentIdp,
          people: [1, 2].map(() => DEVELOPMENT.developmentIdp.people[0]),
        },
      },
      'developmentIdp.people',
    ],
    [
      'two clients with one id',
      {
        clients: {
          preRegistered: ['one', 'two'].map((name) => ({
            id: 'reporting',
            name,
            redirectUris: ['https://reporting.example.com/callback'],
          })),
        },
      },
      'clients.preRegistered',
    ],
    [
      'an origin with a wildcard',
      { resourceServer: { allowedOrigins: ['https://*.example.com'] } },
      'resourceServer.allowedOrigins[0]',
    ],
    [
      'the origin of an extension with a path',
      { resourceServer: { allowedOrigins: ['chrome-extension://abc/page'] } },
      'resourceServer.allowedOrigins[0]',
    ],
    ['an address with a wildcard', { authUrl: 'https://*.example.com' }, 'authUrl'],
    [
      'an origin with a path',
      { resourceServer: { allowedOrigins: ['https://a.example/x'] } },
      'resourceServer.allowedOrigins[0]',
    ],
    [
      'a body limit of a few bytes',
      { resourceServer: { maxBodyBytes: 12 } },
      'resourceServer.maxBodyBytes',
    ],
  ];
  for (const [name, change, setting] of WRONG) {
    it(`an issue is reported for ${name}`, () => {
      expect(wrongSettings({ ...DEVELOPMENT, ...change })).to.deep.equal([setting]);
    });
  }

  it('an issue is reported for the embedded store in a process without all roles', () => {
    const issues = issuesIn(DEVELOPMENT, { GATEHOUSE_ROLES: 'management' });
    expect(issues).to.deep.equal([
      {
        setting: 'GATEHOUSE_ROLES',
        given: 'management',
        expected: 'all roles, or a Redis store: SQLite supports only one process with all roles',
      },
    ]);
  });
});

describe('an unknown setting', () => {
  const unknown = (setting: string, expected: string) => [
    { setting, given: 'an unknown setting', expected },
  ];

  it('an unknown setting is an issue that names the most similar setting', () => {
    expect(issuesIn({ ...DEVELOPMENT, auth_url: 'x' })).to.deep.equal(
      unknown('auth_url', 'a known setting (did you mean authUrl?)'),
    );
    expect(issuesIn({ ...DEVELOPMENT, lifetimes: { acessToken: '1h' } })).to.deep.equal(
      unknown('lifetimes.acessToken', 'a known setting (did you mean accessToken?)'),
    );
    const people = [{ ...DEVELOPMENT.developmentIdp.people[0], emial: 'x' }];
    expect(
      issuesIn({ ...DEVELOPMENT, developmentIdp: { url: 'http://localhost:4003', people } }),
    ).to.deep.equal(
      unknown('developmentIdp.people[0].emial', 'a known setting (did you mean email?)'),
    );
  });

  it('an unknown setting without a similar one is an issue that lists the known settings', () => {
    expect(issuesIn({ ...DEVELOPMENT, consent: { theme: 'dark' } })).to.deep.equal(
      unknown('consent.theme', 'one of stayConnected'),
    );
  });

  it('an unknown variable is an issue if it is similar to a known one', () => {
    expect(issuesIn(DEVELOPMENT, { GATEHOUSE_SECRETS: 'x' })).to.deep.equal([
      {
        setting: 'GATEHOUSE_SECRETS',
        given: 'an unknown variable',
        expected: 'a known variable (did you mean GATEHOUSE_SECRET?)',
      },
    ]);
  });
});
