// When a grant is over that nobody ended, what it then says, and how long it says so.
import { expect } from 'chai';
import {
  grantLifetimes,
  endReason,
  isActive,
  timeToLive,
} from '../../src/grants/grant-lifetime.ts';
import { type GrantRecord, withRefusal } from '../../src/grants/grant-record.ts';
import type { Reason } from '../../src/grants/reasons.ts';

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

const CASES: { what: string; record: GrantRecord; end: number; reason: Reason; kept: number }[] = [
  {
    what: 'approved without a code',
    record: recordWith({}),
    end: START + 46,
    reason: 'never_used',
    kept: 0,
  },
  {
    what: 'whose code nobody exchanged',
    record: recordWith({ code }),
    end: START + 65,
    reason: 'never_used',
    kept: 0,
  },
  {
    what: 'without a refresh token',
    record: recordWith({ code: usedCode }),
    end: START + 3601,
    reason: 'not_renewable',
    kept: 30 * DAY,
  },
  {
    what: 'that nobody refreshed',
    record: recordWith({ refresh: { payload: { iat: START }, generation: 0, turns: [] } }),
    end: START + 30 * DAY,
    reason: 'idle',
    kept: 30 * DAY,
  },
  {
    what: 'that was refreshed on its tenth day only',
    record: recordWith(refreshedAt(START + 10 * DAY)),
    end: START + 40 * DAY,
    reason: 'idle',
    kept: 30 * DAY,
  },
  {
    what: 'that was refreshed to the end',
    record: recordWith(refreshedAt(START + 89 * DAY)),
    end: START + 90 * DAY,
    reason: 'absolute',
    kept: 30 * DAY,
  },
  {
    what: 'that was vouched for on its tenth day last',
    record: recordWith({ vouchedAt: START + 10 * DAY }),
    end: START + 40 * DAY,
    reason: 'idle',
    kept: 30 * DAY,
  },
  {
    what: 'that was vouched for to the end',
    record: recordWith({ vouchedAt: START + 89 * DAY }),
    end: START + 90 * DAY,
    reason: 'absolute',
    kept: 30 * DAY,
  },
];

describe('A grant', () => {
  for (const { what, record, end, reason, kept } of CASES)
    it(`${what} is over to the second because of ${reason}, and is kept ${kept / DAY} days more`, () => {
      expect(endReason(record, LIFETIMES, end - 1)).to.equal(undefined);
      expect(endReason(record, LIFETIMES, end)).to.deep.equal({ reason, at: end });
      expect(isActive(record, LIFETIMES, end - 1)).to.equal(kept > 0);
      expect(isActive(record, LIFETIMES, end)).to.equal(false);
      expect(timeToLive(record, LIFETIMES, START)).to.equal(end - START + kept);
    });

  it('remembers a refusal once an hour, and the last five', () => {
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
