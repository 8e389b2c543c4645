import { expect } from 'chai';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { ruleNotices } from '../../src/settings/entitlements.ts';
import { freePorts } from '../support/free-ports.ts';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  SECRET,
} from './settings-file.ts';

const EXAMPLE = {
  id: 'example',
  name: 'Example Corp',
  issuer: 'https://login.example.com',
  clientId: 'gatehouse',
  emailDomains: ['Example.com'],
};
const PARTNERS = {
  id: 'partners',
  name: 'Partners',
  issuer: 'https://partners.example',
  clientId: 'gatehouse',
};
const GITHUB = {
  id: 'github',
  name: 'GitHub',
  kind: 'github',
  clientId: 'Iv1.0123456789abcdef',
  clientSecret: 'a-client-secret',
  organizations: true,
};
const CLIENT_SECRET = 'a-secret-of-a-client-that-is-long-enough';
const CLIENT = {
  id: 'app',
  name: 'App',
  redirectUris: ['https://app.example.com/cb'],
  secret: CLIENT_SECRET,
};
const { identityProvider: SINGLE, ...WITHOUT } = PRODUCTION;
const THREE = { identityProviders: [EXAMPLE, PARTNERS, GITHUB] };
const { id: _id, name: _name, ...GITHUB_ALONE } = GITHUB;

type Parts = {
  providers?: object;
  rules?: object[];
  administrators?: object[];
  trusted?: object[];
};

function settingsWith({
  providers = { identityProvider: SINGLE },
  rules = [{ group: 'analysts' }],
  administrators = [],
  trusted = [],
}: Parts) {
  return {
    ...WITHOUT,
    ...providers,
    entitlements: rules.map((match) => ({ match, level: 'operations' })),
    management: { administrators },
    clients: { preRegistered: [CLIENT] },
    authorization: {
      trustedIssuers: trusted.map((issuer) => ({
        jwksUri: 'https://trusted.example/keys',
        clients: ['app'],
        ...issuer,
      })),
    },
  };
}

const TRUSTED = { issuer: 'https://trusted.example' };

/** Expected issues by the name of the setting. */
function refusals(parts: Parts): Record<string, string> {
  const issues = issuesIn(settingsWith(parts), { GATEHOUSE_SECRET: SECRET });
  return Object.fromEntries(issues.map(({ setting, expected }) => [setting, expected]));
}

function acceptedBy(parts: Parts) {
  return loadInProduction(settingsWith(parts)).entitlements.map(({ match: { from } }) => from);
}

function noticesOf(parts: Parts) {
  return ruleNotices(loadInProduction(settingsWith(parts)));
}

const signIn = (...issuers: string[]) => ({ via: 'sign-in', issuers });
const GITHUB_ISSUER = 'https://github.com';

describe('entitlement and administrator rules', () => {
  it('ENT-01 a rule without provider accepts the sign-in providers, and no trusted issuer', () => {
    expect(acceptedBy({ trusted: [TRUSTED] })).to.deep.equal([signIn(SINGLE.issuer)]);
    const rules = [{ email: 'ada@else.example' }, { emailDomain: 'else.example' }];
    const all = signIn(EXAMPLE.issuer, PARTNERS.issuer, GITHUB_ISSUER);
    expect(acceptedBy({ providers: THREE, rules, trusted: [TRUSTED] })).to.deep.equal([all, all]);
  });

  it('ENT-02 a rule with provider accepts that sign-in provider or trusted issuer alone', () => {
    const rules = [
      { group: 'a', provider: 'partners' },
      { group: 'a', provider: 'trusted.example' },
      { anyone: true, provider: 'second' },
    ];
    const second = { id: 'second', issuer: 'https://trusted.example/second' };
    expect(acceptedBy({ providers: THREE, rules, trusted: [TRUSTED, second] })).to.deep.equal([
      signIn(PARTNERS.issuer),
      { via: 'id-jag', issuers: [TRUSTED.issuer] },
      { via: 'id-jag', issuers: [second.issuer] },
    ]);
  });

  it('a rule names the only identity provider as default, or by its id', () => {
    const rules = [{ group: 'a', provider: 'default' }];
    expect(acceptedBy({ rules })).to.deep.equal([signIn(SINGLE.issuer)]);
    const named = { identityProvider: { ...SINGLE, id: 'company' } };
    expect(
      acceptedBy({ providers: named, rules: [{ group: 'a', provider: 'company' }] }),
    ).to.deep.equal([signIn(SINGLE.issuer)]);
    expect(refusals({ providers: named, rules })).to.deep.equal({
      'entitlements[0].match.provider': 'company',
    });
  });

  it('a rule names the embedded identity provider as development', () => {
    const entitlements = [{ match: { subject: 'ada', provider: 'development' }, level: 'full' }];
    const [rule] = load({ ...DEVELOPMENT, entitlements }).entitlements;
    expect(rule?.match.from).to.deep.equal(signIn('http://localhost:4003'));
  });

  it('ENT-03 a rule about an address in a domain of emailDomains accepts the owner of the domain alone', () => {
    const rules = [
      { emailDomain: 'EXAMPLE.com' },
      { email: 'Ceo@Example.COM' },
      { emailDomain: 'mail.example.com' },
    ];
    const all = signIn(EXAMPLE.issuer, PARTNERS.issuer, GITHUB_ISSUER);
    expect(acceptedBy({ providers: THREE, rules })).to.deep.equal([
      signIn(EXAMPLE.issuer),
      signIn(EXAMPLE.issuer),
      all,
    ]);
  });

  it('ENT-05 a rule cannot give an address to another provider than the owner of its domain', () => {
    const rules = [
      { emailDomain: 'example.com', provider: 'partners' },
      { email: 'ceo@Example.com', provider: 'trusted.example' },
      { emailDomain: 'example.com', provider: 'example' },
      { emailDomain: 'else.example', provider: 'partners' },
    ];
    const expected = 'example, because this domain is in its emailDomains';
    expect(refusals({ providers: THREE, rules, trusted: [TRUSTED] })).to.deep.equal({
      'entitlements[0].match.provider': expected,
      'entitlements[1].match.provider': expected,
    });
    const administrators = [{ emailDomain: 'example.com', provider: 'partners' }];
    expect(refusals({ providers: THREE, rules: rules.slice(3), administrators })).to.deep.equal({
      'management.administrators[0].provider': expected,
    });
  });

  it('a rule about the domain of an issuer that is both a sign-in provider and trusted may name either of its ids', () => {
    const providers = { identityProvider: { ...SINGLE, emailDomains: ['example.com'] } };
    const rules = [
      { emailDomain: 'example.com', provider: 'default' },
      { emailDomain: 'example.com', provider: 'login.example.com' },
    ];
    const trusted = [{ issuer: SINGLE.issuer }];
    expect(acceptedBy({ providers, rules, trusted })).to.deep.equal([
      signIn(SINGLE.issuer),
      { via: 'id-jag', issuers: [SINGLE.issuer] },
    ]);
  });

  it('a rule says which of several providers it means, unless it is about an address', () => {
    const rules = [
      { group: 'analysts' },
      { subject: '1' },
      { anyone: true },
      { organization: 'example-corp#12' },
      { email: 'ada@example.com' },
    ];
    const expected = 'one of example, partners, github, because there are several';
    expect(refusals({ providers: THREE, rules })).to.deep.equal({
      'entitlements[0].match.provider': expected,
      'entitlements[1].match.provider': expected,
      'entitlements[2].match.provider': expected,
      'entitlements[3].match.provider': expected,
    });
    expect(acceptedBy({ rules: rules.filter((rule) => !rule.organization) })).to.have.length(4);
  });

  it('ENT-05 a rule about administrators always says which of several providers it means, and never a trusted issuer', () => {
    const administrators = [
      { group: 'a' },
      { email: 'ada@else.example' },
      { emailDomain: 'example.com' },
      { subject: '1', provider: 'trusted.example' },
      { subject: '1', provider: 'github' },
    ];
    const rules = [{ group: 'a', provider: 'example' }];
    const expected = 'one of example, partners, github, because there are several';
    expect(refusals({ providers: THREE, rules, administrators, trusted: [TRUSTED] })).to.deep.equal(
      {
        'management.administrators[0].provider': expected,
        'management.administrators[1].provider': expected,
        'management.administrators[2].provider': 'example, because there are several',
        'management.administrators[3].provider': 'one of example, partners, github',
      },
    );
    const [administrator] = loadInProduction(
      settingsWith({ providers: THREE, rules, administrators: administrators.slice(4) }),
    ).management.administrators;
    expect(administrator?.from).to.deep.equal(signIn(GITHUB_ISSUER));
  });

  it('a rule with an unknown provider, or with only a provider, is an issue', () => {
    expect(
      refusals({
        providers: THREE,
        rules: [{ group: 'a', provider: 'gitlab' }],
        trusted: [TRUSTED],
      }),
    ).to.deep.equal({
      'entitlements[0].match.provider': 'one of example, partners, github, trusted.example',
    });
    expect(refusals({ providers: THREE, rules: [{ provider: 'github' }] })).to.have.property(
      'entitlements[0].match',
    );
  });

  it('ENT-06 a rule about an organization requires GitHub with organizations', () => {
    const organization = 'example-corp#1234567';
    const rules = [
      { organization, provider: 'example' },
      { organization, provider: 'trusted.example' },
      { organization, provider: 'github' },
    ];
    expect(Object.keys(refusals({ providers: THREE, rules, trusted: [TRUSTED] }))).to.deep.equal([
      'entitlements[0].match.organization',
      'entitlements[1].match.organization',
    ]);
    expect(Object.keys(refusals({ rules: [{ organization }] }))).to.deep.equal([
      'entitlements[0].match.organization',
    ]);
    const without = { identityProvider: { ...GITHUB_ALONE, organizations: false } };
    expect(Object.keys(refusals({ providers: without, rules: [{ organization }] }))).to.deep.equal([
      'entitlements[0].match.organization',
    ]);
    const providers = { identityProvider: GITHUB_ALONE };
    expect(acceptedBy({ providers, rules: [{ organization }] })).to.deep.equal([
      signIn(GITHUB_ISSUER),
    ]);
    for (const wrong of ['#1', 'a#', 'a#0', 'a#01', 'a#1 ', 'a#1#2', 'a b', ''])
      expect(refusals({ providers, rules: [{ organization: wrong }] }), wrong).to.have.property(
        'entitlements[0].match.organization',
      );
  });
});

describe('the id of a sign-in provider or trusted issuer', () => {
  const ids: [string, Parts, string][] = [
    [
      'two trusted issuers at one host',
      { trusted: [TRUSTED, { issuer: 'https://trusted.example/second' }] },
      'authorization.trustedIssuers[1].id',
    ],
    [
      'a trusted issuer and the only provider',
      { trusted: [{ ...TRUSTED, id: 'default' }] },
      'authorization.trustedIssuers[0].id',
    ],
    [
      'a trusted issuer and a listed provider',
      {
        providers: THREE,
        rules: [{ group: 'a', provider: 'example' }],
        trusted: [{ ...TRUSTED, id: 'partners' }],
      },
      'authorization.trustedIssuers[0].id',
    ],
  ];
  for (const [what, parts, setting] of ids) {
    it(`ENT-05 an id is not shared by ${what}`, () => {
      const found = refusals(parts);
      expect(Object.keys(found)).to.deep.equal([setting]);
      expect(found[setting]).to.match(/^a different id, because .* has the id /);
    });
  }

  it('an id has a form that rules can be written with', () => {
    for (const id of ['', 'Example', 'a b', '-a'])
      expect(refusals({ trusted: [{ ...TRUSTED, id }] })).to.have.property(
        'authorization.trustedIssuers[0].id',
      );
    expect(refusals({ providers: { identityProvider: { ...SINGLE, id: 'A' } } })).to.have.property(
      'identityProvider.id',
    );
  });
});

describe('warnings about rules', () => {
  it('ENT-06 a rule is reported when it names an organization of GitHub by its login, as a group or as an organization', () => {
    const rules = [
      { group: 'example-corp', provider: 'github' },
      { organization: 'example-corp', provider: 'github' },
      { organization: 'example-corp#12', provider: 'github' },
      { group: 'example-corp', provider: 'example' },
    ];
    const administrators = [{ group: 'owners', provider: 'github' }];
    const notices = noticesOf({ providers: THREE, rules, administrators });
    expect(notices.map(({ setting }) => setting)).to.deep.equal([
      'entitlements[0]',
      'entitlements[1]',
      'management.administrators[0]',
    ]);
    expect(notices[0]?.remedy).to.include(
      'write organization: "example-corp#<id>" in place of group: example-corp',
    );
  });

  it('ENT-06 each such rule is logged once as a warning at startup, with what to write', async () => {
    const lines: { level: number; what?: string; msg: string }[] = [];
    const logger = createLogger('warn', { write: (line) => void lines.push(JSON.parse(line)) });
    const [authUrl, resourceUrl, managementUrl, issuer] = (await freePorts(4)).map(
      (port) => `http://localhost:${port}`,
    );
    const { entitlements } = settingsWith({ rules: [{ group: 'a' }, { organization: 'b' }] });
    const { developmentIdp: _, ...development } = DEVELOPMENT;
    const running = await startGatehouse(
      load({
        ...development,
        authUrl,
        resourceUrl,
        managementUrl,
        identityProvider: { ...GITHUB_ALONE, issuer },
        entitlements,
      }),
      { logger },
    );
    await running.stop();
    const logged = lines.filter(({ what }) => what?.startsWith('entitlements'));
    expect(logged.map(({ what }) => what)).to.deep.equal(['entitlements[0]', 'entitlements[1]']);
    for (const { level, msg } of logged) {
      expect(level).to.equal(40);
      expect(msg).to.include('write organization: ');
    }
  });

  it('other rules are not reported', () => {
    const rules = [{ group: 'a' }, { subject: 'a' }, { emailDomain: 'example.com' }];
    const providers = { identityProvider: { ...SINGLE, emailDomains: ['example.com'] } };
    expect(noticesOf({ providers, rules, trusted: [TRUSTED] })).to.deep.equal([]);
  });
});
