import { expect } from 'chai';
import {
  grantLifetimes,
  endReason,
  isActive,
  timeToLive,
} from '../../src/connections/grant-lifetime.ts';
import { type GrantRecord, withRefusal } from '../../src/connections/grant-record.ts';
import type { Reason } from '../../src/connections/reasons.ts';

const DAY = 86_400;
const START = 1_800_000_000;
const LIFETIMES = grantLifetimes({ accessToken: 3600, refreshTokenIdle: 30 * DAY });

function recordWith(more: Partial<GrantRecord>): GrantRecord {
  return {
    version: 1,
    seed: 'seed',
    connector: 'connector',
    client: { name: 'A client', redirectHost: '127.0.0.1' },
    createdAt: START,
    grant: { accountId: 'account', clientId: 'client', exp: START + 90 * DAY },
    ...more,
  };
}

const code = { payload: { exp: START + 60 } };
const usedCode = { ...code, usedAt: START + 1 };
function refreshedAt(at: number): Partial<GrantRecord> {
  return { refresh: { payload: { iat: START }, generation: 1, turns: [[0, 0, at]] } };
}

const CASES: {
  what: string;
  record: GrantRecord;
  end: number;
  reason: Reason;
  retention: number;
}[] = [
  {
    what: 'without a code',
    record: recordWith({}),
    end: START + 46,
    reason: 'never_used',
    retention: 0,
  },
  {
    what: 'with an unused code',
    record: recordWith({ code }),
    end: START + 65,
    reason: 'never_used',
    retention: 0,
  },
  {
    what: 'without a refresh token',
    record: recordWith({ code: usedCode }),
    end: START + 3601,
    reason: 'not_renewable',
    retention: 30 * DAY,
  },
  {
    what: 'that was never refreshed',
    record: recordWith({ refresh: { payload: { iat: START }, generation: 0, turns: [] } }),
    end: START + 30 * DAY,
    reason: 'idle',
    retention: 30 * DAY,
  },
  {
    what: 'refreshed on its tenth day only',
    record: recordWith(refreshedAt(START + 10 * DAY)),
    end: START + 40 * DAY,
    reason: 'idle',
    retention: 30 * DAY,
  },
  {
    what: 'refreshed until its last day',
    record: recordWith(refreshedAt(START + 89 * DAY)),
    end: START + 90 * DAY,
    reason: 'absolute',
    retention: 30 * DAY,
  },
  {
    what: 'last asserted on its tenth day',
    record: recordWith({ vouchedAt: START + 10 * DAY }),
    end: START + 40 * DAY,
    reason: 'idle',
    retention: 30 * DAY,
  },
  {
    what: 'asserted until its last day',
    record: recordWith({ vouchedAt: START + 89 * DAY }),
    end: START + 90 * DAY,
    reason: 'absolute',
    retention: 30 * DAY,
  },
];

describe('The lifetime of a grant', () => {
  for (const { what, record, end, reason, retention } of CASES)
    it(`a grant ${what} ends at its exact second with ${reason} and is stored ${retention / DAY} days longer`, () => {
      expect(endReason(record, LIFETIMES, end - 1)).to.equal(undefined);
      expect(endReason(record, LIFETIMES, end)).to.deep.equal({ reason, at: end });
      expect(isActive(record, LIFETIMES, end - 1)).to.equal(retention > 0);
      expect(isActive(record, LIFETIMES, end)).to.equal(false);
      expect(timeToLive(record, LIFETIMES, START)).to.equal(end - START + retention);
    });

  it('a grant records each kind of refusal once an hour and keeps the last five', () => {
    const reasons: Reason[] = ['connector_revoked', 'account_disabled', 'not_entitled'];
    let record = recordWith({});
    for (let hour = 0; hour < 5; hour += 1)
      for (const reason of reasons) {
        const now = START + hour * 3600;
        record = withRefusal(record, reason, now) ?? record;
        expect(withRefusal(record, reason, now + 3599)).to.equal(undefined);
        expect(record.refusals?.at(-1)).to.deep.equal({ reason, at: now });
      }
    expect(record.refusals).to.have.length(5);
  });
});
