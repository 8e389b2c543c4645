import { expect } from 'chai';
import { withinGrant } from '../../src/oauth/engine/models/code.ts';
import { type GrantRecord, narrowed } from '../../src/connections/grant-record.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

const APPROVED = 'analytics operations offline_access';

function recordOf(scope: string): GrantRecord {
  const grant = { accountId: 'a', clientId: 'c', exp: 9e9, openid: { scope }, resources: {} };
  const client = { name: 'app', redirectHost: 'app.example' };
  return { version: 1, seed: 's', connector: 'k', client, createdAt: 1, grant };
}

/** The scope of a code with the approved scope that is written to this record. */
function issue(record: GrantRecord): unknown {
  const payload = { grantId: 'g', scope: APPROVED, exp: 60, kind: 'AuthorizationCode' };
  return withinGrant(record, payload).scope;
}

describe('The scope of a code', () => {
  it('a code has the approved scope', () => {
    expect(issue(recordOf(APPROVED))).to.equal(APPROVED);
  });

  for (const [what, limit, left] of [
    ['the refresh token', { level: 'operations', stays: false }, 'analytics operations'],
    ['the level', { level: 'analytics', stays: true }, 'analytics offline_access'],
  ] as const)
    it(`CON-18 a code has the reduced scope if the person reduced ${what} before it was issued`, () => {
      const record = narrowed(DEFAULT_LEVELS, recordOf(APPROVED), limit);
      if (!record) throw new Error('the record was not narrowed');
      expect(issue(record)).to.equal(left);
    });

  for (const [what, levels, scope, level, left] of [
    ['inserted', ['read', 'write', 'full'], 'read full', 'write', 'read write'],
    ['reordered', ['b', 'a', 'c'], 'a b c', 'a', 'b a'],
  ] as const)
    it(`a person who lowers a connection after levels were ${what} gets the chosen level`, () => {
      const settings = levels.map((id) => ({ id, recorded: false }));
      const limit = { level, stays: true };
      const record = narrowed(settings, recordOf(`${scope} offline_access`), limit);
      expect(record?.grant.openid?.scope).to.equal(`${left} offline_access`);
    });
});
