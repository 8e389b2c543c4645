import { expect } from 'chai';
import { type Account, claimsVia, withSignIn, withAssertion } from '../../src/people/account.ts';
import { consoleRole, entitledLevel, isInAudience } from '../../src/people/entitlement.ts';
import type { Level } from '../../src/permission-levels.ts';
import type { ManagementRole } from '../../src/settings/management-roles.ts';
import type {
  AcceptedFrom,
  AudienceRule,
  Entitlement,
  Via,
} from '../../src/settings/entitlements.ts';
import { identityProviderSchema } from '../../src/settings/identity-provider-schema.ts';
import type { RuleInFile } from '../../src/settings/schema.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

const ADA: Account = {
  id: 'account-1',
  issuer: 'https://login.example.com',
  subject: 'subject-1',
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  emailVerified: true,
  groups: ['analysts', 'staff'],
  signedInAt: 0,
};

type Match = RuleInFile['match'];

const FROM: AcceptedFrom = { via: 'sign-in', issuers: [ADA.issuer] };

function accepting(rule: RuleInFile, from = FROM): Entitlement {
  return { ...rule, match: { ...rule.match, from } };
}

type Circumstances = { from?: AcceptedFrom; via?: Via };

/** Whether a rule with this match gives the account a level. */
function settings(entitlements: readonly Entitlement[]) {
  return { levels: [...DEFAULT_LEVELS], entitlements: [...entitlements] };
}

function holds(
  match: Match,
  changes: Partial<Account> = {},
  { from = FROM, via = 'sign-in' }: Circumstances = {},
): boolean {
  const level = entitledLevel(
    settings([accepting({ match, level: 'admin' }, from)]),
    { ...ADA, ...changes },
    via,
  );
  expect(level).to.be.oneOf(['admin', undefined]);
  return level === 'admin';
}

describe('entitlement rules', () => {
  it('a rule for anyone matches every account that signed in', () => {
    expect(holds({ anyone: true })).to.equal(true);
    expect(
      holds({ anyone: true }, { email: undefined, emailVerified: false, groups: [] }),
    ).to.equal(true);
  });

  it('a rule for a subject matches exactly that subject', () => {
    expect(holds({ subject: 'subject-1' })).to.equal(true);
    for (const subject of ['subject-2', 'Subject-1', 'subject-1 ', 'account-1', 'subject'])
      expect(holds({ subject }), subject).to.equal(false);
  });

  it('a rule for a group matches the members of exactly that group', () => {
    expect(holds({ group: 'analysts' })).to.equal(true);
    expect(holds({ group: 'staff' })).to.equal(true);
    for (const group of ['Analysts', 'analyst', 'owners', 'analysts,staff'])
      expect(holds({ group }), group).to.equal(false);
    expect(holds({ group: 'analysts' }, { groups: [] })).to.equal(false);
  });

  it('a rule for an email address ignores case', () => {
    for (const email of ['ada@example.com', 'ADA@Example.com'])
      expect(holds({ email }), email).to.equal(true);
    expect(holds({ email: 'ada@example.com' }, { email: 'Ada@EXAMPLE.com' })).to.equal(true);
    for (const email of ['ad@example.com', 'aada@example.com', 'ada@example.co', 'ada@mail.com'])
      expect(holds({ email }), email).to.equal(false);
  });

  it('a rule for an email domain ignores case', () => {
    for (const emailDomain of ['example.com', 'Example.COM'])
      expect(holds({ emailDomain }), emailDomain).to.equal(true);
    expect(holds({ emailDomain: 'example.com' }, { email: 'Ada@EXAMPLE.com' })).to.equal(true);
  });

  it('ENT-08 a rule for an email domain matches no subdomain, parent domain or similar domain', () => {
    for (const email of [
      'ada@mail.example.com',
      'ada@com',
      'ada@example.com.evil.example',
      'ada@notexample.com',
      'example.com@evil.example',
      '"ada@example.com"@evil.example',
      'ada@example.com@evil.example',
      'ada@example.co',
    ])
      expect(holds({ emailDomain: 'example.com' }, { email }), email).to.equal(false);
  });

  it('ENT-08 rules for addresses and domains match neither look-alike letters nor a trailing dot', () => {
    for (const email of ['mi\u212Ae@example.com', 'mike@e\u0445ample.com', 'mike@example.com.'])
      expect(holds({ email: 'mike@example.com' }, { email }), email).to.equal(false);
    for (const email of [
      'ada@\u212Aroger.example',
      'ada@kroger.example.',
      'ada@KROGER.example\u200B',
    ])
      expect(holds({ emailDomain: 'kroger.example' }, { email }), email).to.equal(false);
  });

  it('IDP-04 rules for addresses and domains match only verified addresses', () => {
    const matches: Match[] = [{ email: 'ada@example.com' }, { emailDomain: 'example.com' }];
    for (const match of matches) {
      expect(holds(match)).to.equal(true);
      expect(holds(match, { emailVerified: false })).to.equal(false);
      expect(holds(match, { email: undefined })).to.equal(false);
      expect(holds(match, { email: '' })).to.equal(false);
    }
  });
});

describe('ENT-01 entitlement rules and the claims of a trusted issuer', () => {
  const VOUCHED = {
    name: 'Ada',
    email: 'ceo@example.org',
    emailVerified: true,
    groups: ['owners'],
    organizations: [{ login: 'example-corp', id: 12 }],
  };
  const BOTH: Partial<Account> = { vouched: VOUCHED };
  const NEVER: Partial<Account> = { ...VOUCHED, vouched: VOUCHED, neverSignedIn: true };
  const FROM_ISSUER: AcceptedFrom = { via: 'id-jag', issuers: [ADA.issuer] };
  const matches: Match[] = [
    { anyone: true },
    { subject: 'subject-1' },
    { group: 'owners' },
    { email: 'ceo@example.org' },
    { emailDomain: 'example.org' },
    { organization: 'example-corp#12' },
  ];

  it('ENT-02 claims of a trusted issuer satisfy no rule about a sign-in provider', () => {
    for (const match of matches)
      for (const via of ['sign-in', 'id-jag'] as const)
        expect(holds(match, NEVER, { via }), JSON.stringify([match, via])).to.equal(false);
    for (const match of matches.slice(2))
      expect(holds(match, BOTH), JSON.stringify(match)).to.equal(false);
  });

  it('claims of a trusted issuer satisfy rules about that issuer', () => {
    for (const account of [BOTH, NEVER])
      for (const match of matches)
        expect(
          holds(match, account, { from: FROM_ISSUER, via: 'id-jag' }),
          JSON.stringify(match),
        ).to.equal(true);
  });

  it('ENT-02 claims from a sign-in satisfy no rule about a trusted issuer', () => {
    const circumstances = { from: FROM_ISSUER, via: 'id-jag' } as const;
    for (const match of [{ group: 'analysts' }, { emailDomain: 'example.com' }])
      expect(holds(match, BOTH, circumstances)).to.equal(false);
    for (const match of matches) expect(holds(match, {}, circumstances)).to.equal(false);
  });

  it('CSL-01 claims of a trusted issuer give no level at a sign-in and make nobody an administrator', () => {
    for (const match of matches) {
      expect(holds(match, BOTH, { from: FROM_ISSUER })).to.equal(false);
      const role = 'administrator' as const;
      const [signedIn, asserted] = [FROM, FROM_ISSUER].map((from) => [{ ...match, from, role }]);
      expect(consoleRole({ ...ADA, ...NEVER }, signedIn ?? [])).to.equal(undefined);
      expect(consoleRole({ ...ADA, ...BOTH }, asserted ?? [])).to.equal(undefined);
    }
  });

  it('ROL-02 a person whom several rules match has the highest of their roles in the console', () => {
    const rule = (subject: string, role: ManagementRole) => ({ subject, role, from: FROM });
    const [viewer, operator] = [rule(ADA.subject, 'viewer'), rule(ADA.subject, 'operator')];
    for (const rules of [
      [viewer, operator],
      [operator, viewer],
    ])
      expect(consoleRole(ADA, [...rules, rule('somebody else', 'administrator')])).to.equal(
        'operator',
      );
    expect(consoleRole(ADA, [viewer])).to.equal('viewer');
  });

  it('an account keeps the claims of a trusted issuer apart from those of a sign-in', () => {
    const identity = { id: 'a', issuer: ADA.issuer, subject: 's', groups: ['staff'] };
    const vouched = withAssertion(undefined, { ...identity, email: 'v@example.com' }, 1);
    expect(claimsVia(vouched, 'sign-in')).to.equal(undefined);
    const both = withSignIn(
      vouched,
      { ...identity, name: 'N', emailVerified: false, groups: [] },
      2,
    );
    expect(claimsVia(both, 'sign-in')).to.deep.include({ name: 'N', groups: [] });
    expect(claimsVia(both, 'id-jag')).to.deep.include({
      email: 'v@example.com',
      groups: ['staff'],
    });
    const after = withAssertion(both, { ...identity, groups: ['owners'] }, 3);
    expect(after).to.deep.include({ name: 'N', groups: [], signedInAt: 2 });
    expect(claimsVia(after, 'id-jag')).to.deep.include({
      email: 'v@example.com',
      groups: ['owners'],
    });
  });
});

describe('ENT-02 entitlement rules that name issuers', () => {
  const other = { from: { via: 'sign-in', issuers: ['https://partners.example'] } } as const;

  it('ENT-02 a rule that names issuers matches only their accounts, with or without a trailing slash', () => {
    const issuers = ['https://partners.example', `${ADA.issuer}/`];
    expect(holds({ anyone: true }, {}, { from: { via: 'sign-in', issuers } })).to.equal(true);
    for (const match of [{ anyone: true }, { subject: 'subject-1' }, { group: 'staff' }] as Match[])
      expect(holds(match, {}, other)).to.equal(false);
    expect(holds({ emailDomain: 'example.com' }, {}, other)).to.equal(false);
  });

  it('a rule names the issuer in the settings, even if the ID tokens have another one', () => {
    const account = { issuer: 'https://tenant.example', providerIssuer: ADA.issuer };
    expect(holds({ anyone: true }, account)).to.equal(true);
    expect(holds({ anyone: true }, { issuer: 'https://tenant.example' })).to.equal(false);
  });
});

describe('ENT-06 entitlement rules for GitHub organizations', () => {
  const organizations = [
    { login: 'Example-Corp', id: 12 },
    { login: 'other', id: 7 },
  ];
  const members: Record<string, boolean> = {
    'example-corp#12': true,
    'renamed-meanwhile#12': true,
    'example-corp': true,
    'EXAMPLE-corp': true,
    'other#7': true,
    'example-corp#7': true,
    'example-corp#1': false,
    'example-corp#120': false,
    'other#666': false,
    '12': false,
    example: false,
  };
  for (const [organization, isMember] of Object.entries(members)) {
    it(`ENT-06 the organization ${organization} ${isMember ? 'matches' : 'does not match'} a member of Example-Corp (12) and other (7)`, () => {
      expect(holds({ organization }, { organizations })).to.equal(isMember);
    });
  }

  it('ENT-06 a rule for an organization matches neither groups of that name nor unknown organizations', () => {
    for (const organization of ['example-corp#12', 'example-corp', '12']) {
      const groups = [organization, 'example-corp', 'example-corp#12', '12', '#12'];
      expect(holds({ organization }, { groups })).to.equal(false);
      expect(holds({ organization }, { groups, organizations: [] })).to.equal(false);
    }
  });
});

describe('the entitled level of an account', () => {
  const rules: Entitlement[] = (
    [
      { match: { emailDomain: 'example.com' }, level: 'operations' },
      { match: { group: 'owners' }, level: 'full' },
      { match: { group: 'analysts' }, level: 'analytics' },
      { match: { email: 'ada@example.com' }, level: 'admin' },
    ] satisfies RuleInFile[]
  ).map((rule) => accepting(rule));

  const cases: [string, Partial<Account>, Level | undefined][] = [
    ['several rules', {}, 'admin'],
    ['a group only', { emailVerified: false }, 'analytics'],
    ['a domain and a group', { email: 'grace@example.com' }, 'operations'],
    ['every rule', { groups: ['analysts', 'owners'] }, 'full'],
    ['no rule', { email: 'ada@other.example', groups: ['staff'] }, undefined],
  ];
  for (const [what, changes, level] of cases) {
    it(`an account that matches ${what} gets ${level ?? 'no level'}, in any order of the rules`, () => {
      for (const order of [rules, rules.toReversed(), rules.toSorted(byLevel)])
        expect(entitledLevel(settings(order), { ...ADA, ...changes }, 'sign-in')).to.equal(level);
    });
  }

  it('an account gets no level without rules', () => {
    expect(entitledLevel(settings([]), ADA, 'sign-in')).to.equal(undefined);
  });

  it('a disabled account gets no level', () => {
    const anyone = accepting({ match: { anyone: true }, level: 'full' });
    for (const disabledAt of [0, 1, Date.now() / 1000])
      expect(
        entitledLevel(settings([...rules, anyone]), { ...ADA, disabledAt }, 'sign-in'),
      ).to.equal(undefined);
  });
});

function byLevel(a: Entitlement, b: Entitlement): number {
  return a.level < b.level ? -1 : 1;
}

describe('the audience of a connector', () => {
  type Provider = { id: string; issuer?: string; emailDomains?: string[] };

  function isIncluded(
    audience: AudienceRule[] | undefined,
    providers: Provider[],
    trustedIssuers: { id: string; issuer: string }[] = [],
    via: Via = 'sign-in',
  ): boolean {
    const identityProviders = providers.map((provider) => ({
      ...identityProviderSchema.parse({ issuer: ADA.issuer, clientId: 'gatehouse', ...provider }),
      listed: true,
      embedded: false,
    }));
    const authorization = { trustedIssuers } as never;
    const account = via === 'sign-in' ? ADA : { ...ADA, vouched: ADA };
    return isInAudience({ identityProviders, authorization }, { audience }, account, via);
  }

  const OWN = { id: 'default' };
  const OTHER = { id: 'other', issuer: 'https://other.example' };
  const GROUP = { group: 'analysts' };

  it('a connector that was stored without an audience is for everybody, and one with an empty audience for nobody', () => {
    expect(isIncluded(undefined, [OWN])).to.equal(true);
    expect(isIncluded([], [OWN])).to.equal(false);
  });

  it('RCN-04 a rule about a group without a provider matches nobody once there are several', () => {
    expect(isIncluded([GROUP], [OWN])).to.equal(true);
    expect(isIncluded([GROUP], [OWN, OTHER])).to.equal(false);
    expect(isIncluded([{ ...GROUP, provider: 'default' }], [OWN, OTHER])).to.equal(true);
  });

  it('RCN-04 a rule matches nobody if its provider is gone or does not own its domain', () => {
    expect(isIncluded([{ ...GROUP, provider: 'other' }], [OWN])).to.equal(false);
    const byDefault = { email: 'ada@example.com', provider: 'default' };
    expect(isIncluded([byDefault], [OWN, OTHER])).to.equal(true);
    const owner = { ...OTHER, emailDomains: ['example.com'] };
    expect(isIncluded([byDefault], [OWN, owner])).to.equal(false);
    expect(isIncluded([{ email: 'ada@example.com' }], [OWN, owner])).to.equal(false);
    expect(isIncluded([byDefault, { emailDomain: 'example.com' }, GROUP], [OWN])).to.equal(true);
  });

  it('RCN-02 a rule about a sign-in provider does not match what a trusted issuer asserts, nor the other way round', () => {
    const trusted = [{ id: 'vouching', issuer: ADA.issuer }];
    for (const [provider, via, expected] of [
      [undefined, 'sign-in', true],
      ['default', 'sign-in', true],
      ['vouching', 'sign-in', false],
      [undefined, 'id-jag', false],
      ['default', 'id-jag', false],
      ['vouching', 'id-jag', true],
    ] as const) {
      const rule = { ...GROUP, ...(provider === undefined ? {} : { provider }) };
      expect(isIncluded([rule], [OWN], trusted, via), `${provider} ${via}`).to.equal(expected);
    }
  });
});
