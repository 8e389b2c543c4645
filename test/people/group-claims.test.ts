import { expect } from 'chai';
import { claimAt, groupsIn } from '../../src/people/group-claims.ts';

describe('groupsIn', () => {
  const FORMS: [what: string, claim: unknown, groups: string[]][] = [
    ['a list of names', ['analysts', 'staff'], ['analysts', 'staff']],
    ['one name, as AD FS and JumpCloud send it', 'analysts', ['analysts']],
    ['a list of objects with a name', [{ name: 'analysts', id: 7 }], ['analysts']],
    [
      'an object, as Zitadel sends it',
      { analysts: { 1: 'example.com' }, staff: {} },
      ['analysts', 'staff'],
    ],
    ['the distinguished name of one group', 'CN=Analysts,DC=example', ['CN=Analysts,DC=example']],
    ['a list with repeated and empty names', ['staff', '', 'staff'], ['staff']],
    ['an empty list', [], []],
    ['an empty string', '', []],
  ];
  for (const [what, claim, groups] of FORMS)
    it(`reads ${what}`, () => {
      expect(groupsIn(claim)).to.deep.equal({ groups });
    });

  it('does not split a string at commas, because names contain them, and reports it', () => {
    expect(groupsIn('staff,admins')).to.deep.equal({
      groups: ['staff,admins'],
      unusable: 'one string that looks like a list',
    });
    expect(groupsIn('["admins"]').unusable).to.equal('one string that looks like a list');
  });

  const UNUSABLE: [claim: unknown, unusable: string, groups?: string[]][] = [
    [7, 'a number'],
    [true, 'a boolean'],
    [['staff', 7], 'a list with a number', ['staff']],
    [['staff', null], 'a list with null', ['staff']],
    [[['staff']], 'a list with a list', []],
    [[{ id: 7 }], 'a list with an object without a name', []],
  ];
  for (const [claim, unusable, groups] of UNUSABLE)
    it(`reports the type of ${JSON.stringify(claim)}, and keeps what are names`, () => {
      expect(groupsIn(claim)).to.deep.equal({ unusable, ...(groups ? { groups } : {}) });
    });

  it('an absent claim and null are no groups, and nothing is reported', () => {
    expect([groupsIn(undefined), groupsIn(null)]).to.deep.equal([{}, {}]);
  });
});

describe('claimAt', () => {
  it('a member of exactly this name comes first, also with dots and colons in it', () => {
    const claims = {
      'https://example.com/groups': ['a'],
      'cognito:groups': ['b'],
      'realm_access.roles': ['c'],
      realm_access: { roles: ['d'] },
    };
    expect(claimAt(claims, 'https://example.com/groups')).to.deep.equal(['a']);
    expect(claimAt(claims, 'cognito:groups')).to.deep.equal(['b']);
    expect(claimAt(claims, 'realm_access.roles')).to.deep.equal(['c']);
  });

  it('a path leads to a nested member, also through names with dots', () => {
    const claims = { resource_access: { 'my.app': { roles: ['a'] } } };
    expect(claimAt(claims, 'resource_access.my.app.roles')).to.deep.equal(['a']);
    expect(claimAt(claims, 'resource_access.my.roles')).to.equal(undefined);
    expect(claimAt(claims, 'resource_access.my.app.roles.0')).to.equal(undefined);
  });

  it('inherited members are no claims', () => {
    expect(claimAt({ a: {} }, 'constructor')).to.equal(undefined);
    expect(claimAt({ a: {} }, 'a.constructor.name')).to.equal(undefined);
  });
});
