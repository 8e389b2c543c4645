// Who may hold what by the rules of the settings: addresses count when they are verified, and the highest rule that matches decides.
import { expect } from 'chai';
import { type Account, claimsVia, signedIn, vouchedFor } from '../../src/accounts/account.ts';
import { entitledLevel, isAdministrator } from '../../src/accounts/entitlement.ts';
import type { Level } from '../../src/permission-level.ts';
import type { AcceptedFrom, Entitlement, Via } from '../../src/settings/entitlements.ts';
import type { RuleInFile } from '../../src/settings/schema.ts';

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

/** Whether a rule with this match alone gives the account anything. */
function holds(
  match: Match,
  changes: Partial<Account> = {},
  { from = FROM, via = 'sign-in' }: Circumstances = {},
): boolean {
  const level = entitledLevel(
    { ...ADA, ...changes },
    [accepting({ match, level: 'admin' }, from)],
    via,
  );
  expect(level).to.be.oneOf(['admin', undefined]);
  return level === 'admin';
}

describe('A rule for', () => {
  it('anyone matches everybody who signed in', () => {
    expect(holds({ anyone: true })).to.equal(true);
    expect(
      holds({ anyone: true }, { email: undefined, emailVerified: false, groups: [] }),
    ).to.equal(true);
  });

  it('a subject matches that one, to the letter', () => {
    expect(holds({ subject: 'subject-1' })).to.equal(true);
    for (const subject of ['subject-2', 'Subject-1', 'subject-1 ', 'account-1', 'subject'])
      expect(holds({ subject }), subject).to.equal(false);
  });

  it('a group matches its members, to the letter', () => {
    expect(holds({ group: 'analysts' })).to.equal(true);
    expect(holds({ group: 'staff' })).to.equal(true);
    for (const group of ['Analysts', 'analyst', 'owners', 'analysts,staff'])
      expect(holds({ group }), group).to.equal(false);
    expect(holds({ group: 'analysts' }, { groups: [] })).to.equal(false);
  });

  it('an address matches that address in any case', () => {
    for (const email of ['ada@example.com', 'ADA@Example.com'])
      expect(holds({ email }), email).to.equal(true);
    expect(holds({ email: 'ada@example.com' }, { email: 'Ada@EXAMPLE.com' })).to.equal(true);
    for (const email of ['ad@example.com', 'aada@example.com', 'ada@example.co', 'ada@mail.com'])
      expect(holds({ email }), email).to.equal(false);
  });

  it('a domain matches addresses in it, in any case', () => {
    for (const emailDomain of ['example.com', 'Example.COM'])
      expect(holds({ emailDomain }), emailDomain).to.equal(true);
    expect(holds({ emailDomain: 'example.com' }, { email: 'Ada@EXAMPLE.com' })).to.equal(true);
  });

  it('a domain matches neither domains below nor above it, nor those that look like it', () => {
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

  it('an address or a domain matches no address that only looks like it in another alphabet, or ends in a dot', () => {
    for (const email of ['mi\u212Ae@example.com', 'mike@e\u0445ample.com', 'mike@example.com.'])
      expect(holds({ email: 'mike@example.com' }, { email }), email).to.equal(false);
    for (const email of [
      'ada@\u212Aroger.example',
      'ada@kroger.example.',
      'ada@KROGER.example\u200B',
    ])
      expect(holds({ emailDomain: 'kroger.example' }, { email }), email).to.equal(false);
  });

  it('an address or a domain matches nobody whose address is not verified, or who has none', () => {
    const matches: Match[] = [{ email: 'ada@example.com' }, { emailDomain: 'example.com' }];
    for (const match of matches) {
      expect(holds(match)).to.equal(true);
      expect(holds(match, { emailVerified: false })).to.equal(false);
      expect(holds(match, { email: undefined })).to.equal(false);
      expect(holds(match, { email: '' })).to.equal(false);
    }
  });
});

describe('ENT-01 What a trusted issuer asserts', () => {
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

  it('satisfies no rule about a sign-in provider, however the person comes', () => {
    for (const match of matches)
      for (const via of ['sign-in', 'id-jag'] as const)
        expect(holds(match, NEVER, { via }), JSON.stringify([match, via])).to.equal(false);
    for (const match of matches.slice(2))
      expect(holds(match, BOTH), JSON.stringify(match)).to.equal(false);
  });

  it('satisfies rules about that issuer, for what it asserts alone', () => {
    for (const account of [BOTH, NEVER])
      for (const match of matches)
        expect(
          holds(match, account, { from: FROM_ISSUER, via: 'id-jag' }),
          JSON.stringify(match),
        ).to.equal(true);
  });

  it('is not completed by what the person signed in with', () => {
    const circumstances = { from: FROM_ISSUER, via: 'id-jag' } as const;
    for (const match of [{ group: 'analysts' }, { emailDomain: 'example.com' }])
      expect(holds(match, BOTH, circumstances)).to.equal(false);
    for (const match of matches) expect(holds(match, {}, circumstances)).to.equal(false);
  });

  it('gives nothing where the person signs in, nor to an administrator', () => {
    for (const match of matches) {
      expect(holds(match, BOTH, { from: FROM_ISSUER })).to.equal(false);
      expect(isAdministrator({ ...ADA, ...NEVER }, [{ ...match, from: FROM }])).to.equal(false);
      expect(isAdministrator({ ...ADA, ...BOTH }, [{ ...match, from: FROM_ISSUER }])).to.equal(
        false,
      );
    }
  });

  it('stays apart from what the person signs in with later, and from before', () => {
    const identity = { id: 'a', issuer: ADA.issuer, subject: 's', groups: ['staff'] };
    const vouched = vouchedFor(undefined, { ...identity, email: 'v@example.com' }, 1);
    expect(claimsVia(vouched, 'sign-in')).to.equal(undefined);
    const both = signedIn(vouched, { ...identity, name: 'N', emailVerified: false, groups: [] }, 2);
    expect(claimsVia(both, 'sign-in')).to.deep.include({ name: 'N', groups: [] });
    expect(claimsVia(both, 'id-jag')).to.deep.include({
      email: 'v@example.com',
      groups: ['staff'],
    });
    const after = vouchedFor(both, { ...identity, groups: ['owners'] }, 3);
    expect(after).to.deep.include({ name: 'N', groups: [], signedInAt: 2 });
    expect(claimsVia(after, 'id-jag')).to.deep.include({
      email: 'v@example.com',
      groups: ['owners'],
    });
  });
});

describe('ENT-02 A rule that accepts some issuers', () => {
  const other = { from: { via: 'sign-in', issuers: ['https://partners.example'] } } as const;

  it('is satisfied by accounts of these issuers, with or without the slash after the host', () => {
    const issuers = ['https://partners.example', `${ADA.issuer}/`];
    expect(holds({ anyone: true }, {}, { from: { via: 'sign-in', issuers } })).to.equal(true);
    for (const match of [{ anyone: true }, { subject: 'subject-1' }, { group: 'staff' }] as Match[])
      expect(holds(match, {}, other)).to.equal(false);
    expect(holds({ emailDomain: 'example.com' }, {}, other)).to.equal(false);
  });

  it('goes by the issuer in the settings where the ID tokens of the provider have another', () => {
    const account = { issuer: 'https://tenant.example', providerIssuer: ADA.issuer };
    expect(holds({ anyone: true }, account)).to.equal(true);
    expect(holds({ anyone: true }, { issuer: 'https://tenant.example' })).to.equal(false);
  });
});

describe('ENT-06 A rule for an organization', () => {
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
    it(`${organization} matches ${isMember ? '' : 'no '}member of Example-Corp (12) and other (7)`, () => {
      expect(holds({ organization }, { organizations })).to.equal(isMember);
    });
  }

  it('matches nobody by a group of the same name, and nobody whose organizations are not known', () => {
    for (const organization of ['example-corp#12', 'example-corp', '12']) {
      const groups = [organization, 'example-corp', 'example-corp#12', '12', '#12'];
      expect(holds({ organization }, { groups })).to.equal(false);
      expect(holds({ organization }, { groups, organizations: [] })).to.equal(false);
    }
  });
});

describe('The level of a person', () => {
  const rules: Entitlement[] = (
    [
      { match: { emailDomain: 'example.com' }, level: 'operations' },
      { match: { group: 'owners' }, level: 'full' },
      { match: { group: 'analysts' }, level: 'analytics' },
      { match: { email: 'ada@example.com' }, level: 'admin' },
    ] satisfies RuleInFile[]
  ).map((rule) => accepting(rule));

  const cases: [string, Partial<Account>, Level | undefined][] = [
    ['all that match', {}, 'admin'],
    ['a group alone', { emailVerified: false }, 'analytics'],
    ['a domain and a group', { email: 'grace@example.com' }, 'operations'],
    ['every rule', { groups: ['analysts', 'owners'] }, 'full'],
    ['no rule', { email: 'ada@other.example', groups: ['staff'] }, undefined],
  ];
  for (const [what, changes, level] of cases) {
    it(`is ${level ?? 'none'} by ${what}, in whatever order the rules are`, () => {
      for (const order of [rules, rules.toReversed(), rules.toSorted(byLevel)])
        expect(entitledLevel({ ...ADA, ...changes }, order, 'sign-in')).to.equal(level);
    });
  }

  it('is none without rules', () => {
    expect(entitledLevel(ADA, [], 'sign-in')).to.equal(undefined);
  });

  it('is none for a person who was disabled, whatever the rules say', () => {
    const anyone = accepting({ match: { anyone: true }, level: 'full' });
    for (const disabledAt of [0, 1, Date.now() / 1000])
      expect(entitledLevel({ ...ADA, disabledAt }, [...rules, anyone], 'sign-in')).to.equal(
        undefined,
      );
  });
});

function byLevel(a: Entitlement, b: Entitlement): number {
  return a.level < b.level ? -1 : 1;
}
