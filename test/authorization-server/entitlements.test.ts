// Who may hold what by the rules of the settings: addresses count when they are verified, and the highest rule that matches decides.
import { expect } from 'chai';
import type { Account } from '../../src/accounts/account.ts';
import { entitledLevel } from '../../src/accounts/entitlement.ts';
import type { Level } from '../../src/permission-level.ts';
import type { Entitlement } from '../../src/settings/entitlements.ts';

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

type Match = Entitlement['match'];

/** Whether a rule with this match alone gives the account anything. */
function holds(match: Match, changes: Partial<Account> = {}): boolean {
  const level = entitledLevel({ ...ADA, ...changes }, [{ match, level: 'admin' }]);
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

describe('The level of a person', () => {
  const rules: Entitlement[] = [
    { match: { emailDomain: 'example.com' }, level: 'operations' },
    { match: { group: 'owners' }, level: 'full' },
    { match: { group: 'analysts' }, level: 'analytics' },
    { match: { email: 'ada@example.com' }, level: 'admin' },
  ];

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
        expect(entitledLevel({ ...ADA, ...changes }, order)).to.equal(level);
    });
  }

  it('is none without rules', () => {
    expect(entitledLevel(ADA, [])).to.equal(undefined);
  });

  it('is none for a person who was disabled, whatever the rules say', () => {
    const anyone: Entitlement = { match: { anyone: true }, level: 'full' };
    for (const disabledAt of [0, 1, Date.now() / 1000])
      expect(entitledLevel({ ...ADA, disabledAt }, [...rules, anyone])).to.equal(undefined);
  });
});

function byLevel(a: Entitlement, b: Entitlement): number {
  return a.level < b.level ? -1 : 1;
}
