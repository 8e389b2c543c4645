import { expect } from 'chai';
import { codeModel } from '../../src/oauth/engine/models/code.ts';
import { type GrantRecord, narrowed } from '../../src/connections/grant-record.ts';
import { KEEP } from '../../src/store/store.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

const APPROVED = 'analytics operations offline_access';

function recordOf(scope: string): GrantRecord {
  const grant = { accountId: 'a', clientId: 'c', exp: 9e9, openid: { scope }, resources: {} };
  const client = { name: 'app', redirectHost: 'app.example' };
  return { version: 1, seed: 's', connector: 'k', client, createdAt: 1, grant };
}

/** Issues a code with the approved scope for a grant that is stored as `record`. */
async function issue(record: GrantRecord): Promise<unknown> {
  let stored = record;
  const change = async (_id: string, next: (current: GrantRecord) => GrantRecord | typeof KEEP) => {
    const after = next(stored);
    if (after !== KEEP) stored = after;
    return { value: stored, raw: Buffer.alloc(0) };
  };
  const model = codeModel({ onApproved: async () => undefined } as never, { change } as never);
  const payload = { grantId: 'g', scope: APPROVED, exp: 60, kind: 'AuthorizationCode' };
  await model.upsert?.('code', payload as never, 60);
  return stored.code?.payload.scope;
}

describe('The scope of a code', () => {
  it('a code has the approved scope', async () => {
    expect(await issue(recordOf(APPROVED))).to.equal(APPROVED);
  });

  for (const [what, limit, left] of [
    ['the refresh token', { level: 'operations', stays: false }, 'analytics operations'],
    ['the level', { level: 'analytics', stays: true }, 'analytics offline_access'],
  ] as const)
    it(`CON-18 a code has the reduced scope if the person reduced ${what} before it was issued`, async () => {
      const record = narrowed(DEFAULT_LEVELS, recordOf(APPROVED), limit);
      if (!record) throw new Error('the record was not narrowed');
      expect(await issue(record)).to.equal(left);
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
