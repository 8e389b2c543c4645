// The decision about a caller is remembered for as long as the token, the records and the settings are the same.
import { expect } from 'chai';
import type Koa from 'koa';
import type { GrantRecord } from '../../src/connections/grant-record.ts';
import { authenticate, type Authentication, type Caller } from '../../src/gateway/authenticate.ts';
import { HttpError } from '../../src/http/errors.ts';
import type { Connector } from '../../src/links/connector.ts';
import type { Account } from '../../src/people/account.ts';
import { loadSettings } from '../../src/settings/load.ts';

const NOW = 1_800_000_000;
const ISSUER = 'https://idp.example';
const BASE = loadSettings({
  GATEHOUSE_SECRET: 'a root secret of more than 32 characters',
  GATEHOUSE_LOG_LEVEL: 'silent',
});

const entitledTo = (level: string, group = 'staff') => ({
  ...BASE,
  entitlements: [{ match: { group, from: { via: 'sign-in' as const, issuers: [ISSUER] } }, level }],
});
const claims = (scope: string) => ({
  sub: 'ada',
  jti: 'token',
  scope,
  client_id: 'app',
  grant_id: 'grant',
});
const connector = (level: string) => ({ id: 'link', level }) as Connector;
const account = (more: Partial<Account> = {}) =>
  ({
    id: 'ada',
    issuer: ISSUER,
    subject: 'ada',
    groups: ['staff'],
    signedInAt: NOW,
    ...more,
  }) as Account;
const grantOf = (accountId: string, more: Partial<GrantRecord> = {}) =>
  ({
    connector: 'link',
    createdAt: NOW,
    grant: { accountId, clientId: 'app', exp: NOW + 60, openid: { scope: 'operations' } },
    ...more,
  }) as unknown as GrantRecord;
const grant = (more: Partial<GrantRecord> = {}) => grantOf('ada', more);

const BEFORE = {
  settings: entitledTo('full'),
  claims: claims('operations'),
  connector: connector('full'),
  account: account(),
  grant: grant(),
  now: NOW,
};
type World = typeof BEFORE;

async function callerIn(world: World): Promise<Caller | number> {
  const authentication = {
    addresses: world.settings,
    settings: world.settings,
    records: { readGrant: async () => world.grant, readAccount: async () => world.account },
    verifyToken: async () => world.claims,
    now: () => world.now,
  } as unknown as Authentication;
  const ctx = { req: { headers: { authorization: 'Bearer a-token' } } } as Koa.Context;
  try {
    return await authenticate(authentication, ctx, world.connector);
  } catch (error) {
    if (error instanceof HttpError) return error.status;
    throw error;
  }
}

describe('The decision about a caller', () => {
  it('is the same object for the same token, records and settings', async () => {
    const first = await callerIn(BEFORE);
    expect(first).to.include({ level: 'operations', ceiling: 'full' });
    expect(await callerIn(BEFORE)).to.equal(first);
  });

  const CHANGES: [what: string, change: Partial<World>, expected: object | number][] = [
    [
      'other settings',
      { settings: entitledTo('admin') },
      { level: 'operations', ceiling: 'admin' },
    ],
    ['settings that give nothing', { settings: entitledTo('full', 'others') }, 401],
    ['another token', { claims: claims('analytics') }, { level: 'analytics', ceiling: 'full' }],
    ['a lower connector', { connector: connector('analytics') }, { level: 'analytics' }],
    ['a disabled account', { account: account({ disabledAt: NOW }) }, 401],
    ['an account that lost its group', { account: account({ groups: [] }) }, 401],
    ['a revoked token', { grant: grant({ revoked: { token: NOW + 60 } }) }, 401],
    ['a grant of another link', { grant: grant({ connector: 'other' }) }, 401],
  ];
  for (const [what, change, expected] of CHANGES)
    it(`is made anew after a change: ${what}`, async () => {
      expect(await callerIn(BEFORE)).to.include({ level: 'operations', ceiling: 'full' });
      const after = await callerIn({ ...BEFORE, ...change });
      if (typeof expected === 'number') expect(after).to.equal(expected);
      else expect(after).to.include(expected);
      expect(await callerIn(BEFORE)).to.include({ level: 'operations', ceiling: 'full' });
    });

  it('ends with a machine, whose records stay the same', async () => {
    const machine = {
      ...BEFORE,
      claims: { ...claims('operations'), sub: 'machine:app' },
      grant: grantOf('machine:app', { machine: {} }),
    };
    expect(await callerIn(machine)).to.include({ level: 'operations' });
    expect(await callerIn({ ...machine, now: NOW + 60 })).to.equal(401);
  });
});
