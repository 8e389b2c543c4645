import { expect } from 'chai';
import {
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  SECRET,
  settingsFile,
} from './settings-file.ts';

const EXAMPLE = {
  id: 'example',
  name: 'Example Corp',
  issuer: 'https://login.example.com',
  clientId: 'gatehouse',
};
const GITHUB = {
  id: 'github',
  name: 'GitHub',
  kind: 'github',
  clientId: 'Iv1.0123456789abcdef',
  clientSecret: 'a-client-secret',
};
const { identityProvider: SINGLE, ...WITHOUT } = PRODUCTION;
const RULES = [{ match: { emailDomain: 'example.com' }, level: 'operations' }];

function listing(identityProviders: unknown, entitlements: unknown = RULES) {
  return { ...WITHOUT, identityProviders, entitlements };
}

/** Expected issues by the name of the setting. */
function refusals(content: unknown, environment: Record<string, string> = {}) {
  const issues = issuesIn(content, { GATEHOUSE_SECRET: SECRET, ...environment });
  return Object.fromEntries(issues.map(({ setting, expected }) => [setting, expected]));
}

describe('several identity providers', () => {
  it('the providers are listed in the order of the settings, each with its own settings', () => {
    const { identityProviders } = loadInProduction(
      listing([{ ...EXAMPLE, emailDomains: ['Example.COM'] }, GITHUB]),
    );
    expect(identityProviders).to.have.length(2);
    expect(identityProviders[0]).to.include({ ...EXAMPLE, kind: 'openid', embedded: false });
    expect(identityProviders[0]?.emailDomains).to.deep.equal(['example.com']);
    expect(identityProviders[1]).to.include({ ...GITHUB, issuer: 'https://github.com' });
  });

  it('each provider can read its client secret from its own file', () => {
    const file = settingsFile('from-a-file\n');
    const { clientSecret: _, ...github } = GITHUB;
    const settings = loadInProduction(listing([EXAMPLE, { ...github, clientSecretFile: file }]));
    expect(settings.identityProviders.map(({ clientSecret }) => clientSecret)).to.deep.equal([
      undefined,
      'from-a-file',
    ]);
  });

  it('a list of providers beside a single or the embedded one is an issue', () => {
    const list = [EXAMPLE, GITHUB];
    expect(refusals({ ...listing(list), identityProvider: SINGLE })).to.deep.equal({
      identityProviders: 'only one of identityProvider and identityProviders',
    });
    const people = [{ id: 'ada', name: 'Ada', email: 'ada@example.com' }];
    const developmentIdp = { url: 'http://localhost:4003', people };
    expect(refusals({ ...listing(list), developmentIdp })).to.have.property('developmentIdp');
  });

  it('the client secret variable of a single provider is an issue beside a list', () => {
    const environment = { GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'a-secret-of-one' };
    const issues = issuesIn(listing([EXAMPLE, GITHUB]), {
      GATEHOUSE_SECRET: SECRET,
      ...environment,
    });
    expect(JSON.stringify(issues)).to.include('GATEHOUSE_IDENTITY_PROVIDER_SECRET');
    expect(JSON.stringify(issues)).to.include('clientSecretFile');
    expect(JSON.stringify(issues)).not.to.include('a-secret-of-one');
  });

  const other = { ...EXAMPLE, id: 'other', name: 'Other', issuer: 'https://other.example.com' };
  const WRONG: Record<string, [list: unknown, setting: string, expected: RegExp]> = {
    'an empty list': [[], 'identityProviders', /at least 1/],
    'no id': [[{ ...EXAMPLE, id: undefined }], 'identityProviders[0].id', /text/],
    'an id that is not valid in a path': [
      [{ ...EXAMPLE, id: 'Example/1' }],
      'identityProviders[0].id',
      /lower-case/,
    ],
    'no name': [[{ ...EXAMPLE, name: undefined }], 'identityProviders[0].name', /text/],
    'no issuer': [[{ ...EXAMPLE, issuer: undefined }], 'identityProviders[0].issuer', /issuer/],
    'a duplicate id': [[EXAMPLE, { ...other, id: 'example' }], 'identityProviders', /unique id/],
    'a duplicate name': [
      [EXAMPLE, { ...other, name: 'Example Corp' }],
      'identityProviders',
      /unique name/,
    ],
    'a duplicate issuer': [
      [EXAMPLE, { ...other, issuer: EXAMPLE.issuer }],
      'identityProviders',
      /unique issuer/,
    ],
    'a domain at two providers': [
      [
        { ...EXAMPLE, emailDomains: ['example.com'] },
        { ...other, emailDomains: ['EXAMPLE.com'] },
      ],
      'identityProviders',
      /only one provider/,
    ],
    'a misspelt setting': [
      [{ ...EXAMPLE, emailDomain: ['example.com'] }],
      'identityProviders[0].emailDomain',
      /emailDomains/,
    ],
    'organizations at an OpenID provider': [
      [{ ...EXAMPLE, organizations: true }],
      'identityProviders[0].organizations',
      /github/,
    ],
    'a groups claim at GitHub': [
      [{ ...GITHUB, groupsClaim: 'groups' }],
      'identityProviders[0].groupsClaim',
      /organizations/,
    ],
    'back-channel logout at GitHub': [
      [{ ...GITHUB, backchannelLogout: 'connections' }],
      'identityProviders[0].backchannelLogout',
      /GitHub sends no logout tokens/,
    ],
    'GitHub without a secret': [
      [EXAMPLE, { ...GITHUB, clientSecret: undefined }],
      'identityProviders[1].clientSecret',
      /clientSecretFile/,
    ],
    'a client secret and a client secret file': [
      [{ ...EXAMPLE, clientSecret: 'x', clientSecretFile: 'y' }],
      'identityProviders[0].clientSecretFile',
      /not both/,
    ],
  };
  for (const [what, [list, setting, expected]] of Object.entries(WRONG)) {
    it(`identity providers with ${what} are an issue`, () => {
      expect(refusals(listing(list))[setting]).to.match(expected);
    });
  }

  it('in production each provider requires https and a real client secret', () => {
    const list = [
      { ...EXAMPLE, issuer: 'http://login.example.com' },
      { ...GITHUB, clientSecret: 'change-me' },
    ];
    expect(Object.keys(refusals(listing(list)))).to.have.members([
      'identityProviders[0].issuer',
      'identityProviders[1].clientSecret',
    ]);
    const file = settingsFile('change-me');
    const { clientSecret: _, ...github } = GITHUB;
    expect(
      Object.keys(refusals(listing([EXAMPLE, { ...github, clientSecretFile: file }]))),
    ).to.deep.equal(['identityProviders[1].clientSecretFile']);
  });
});

describe('GitHub as the only identity provider', () => {
  it('GitHub is asked for email addresses, and for organizations if the setting is on', () => {
    const { id: _id, name: _name, ...github } = GITHUB;
    const scopesOf = (more: object) =>
      loadInProduction({ ...WITHOUT, identityProvider: { ...github, ...more } })
        .identityProviders[0]?.scopes;
    expect(scopesOf({})).to.deep.equal(['read:user', 'user:email']);
    expect(scopesOf({ organizations: true })).to.include('read:org');
  });

  it('the issuer can be a GitHub Enterprise server', () => {
    const { id: _id, ...github } = GITHUB;
    const issuer = 'https://github.example.com';
    const file = { ...WITHOUT, identityProvider: { ...github, issuer } };
    expect(load(file, { GATEHOUSE_SECRET: SECRET }).identityProviders[0]).to.include({ issuer });
  });
});
