// The rules for refresh tokens against a model that remembers everything: whatever is presented, whenever, and whatever the store forgot.
import { expect } from 'chai';
import { array, assert, constantFrom, integer, nat, property, record } from 'fast-check';
import {
  type GrantRecord,
  classifyRefreshToken,
  rotate,
  type PresentedToken,
} from '../../src/grants/grant-record.ts';

const GRACE = 60;
/** Rotation of the same few seconds count as the last of them. */
const TOLERANCE = 5;
const START = 1_800_000_000;

function newRecord(): GrantRecord {
  return {
    version: 1,
    seed: 'seed',
    connector: 'connector',
    client: { name: 'A client', redirectHost: '127.0.0.1' },
    createdAt: START,
    grant: { accountId: 'account', clientId: 'client', exp: START + 90 * 86_400 },
    refresh: { payload: { iat: START }, generation: 0, turns: [] },
  };
}

/** Presents a generation to the record as a refresh does: what it was, and the record afterwards. */
function present(before: GrantRecord, generation: number, now: number) {
  const { refresh } = before;
  if (!refresh) throw new Error('the record has lost its refresh tokens');
  const verdict = classifyRefreshToken(refresh, generation, now, GRACE);
  const stands = verdict === 'repeat' || verdict === 'replay';
  const after = stands ? before : rotate(before, refresh, generation, now, GRACE);
  return { verdict, after, current: after.refresh?.generation ?? -1 };
}

/** All that ever happened: who is the newest, whose successor each is, and when each was last turned. */
type Model = { newest: number; parent: number | undefined; turnedAt: Map<number, number> };

function newModel(): Model {
  return { newest: 0, parent: undefined, turnedAt: new Map() };
}

/** What contract and common sense allow to be said. In the seconds of tolerance either is right. */
function allowed(
  { newest, parent, turnedAt }: Model,
  presented: number,
  now: number,
): PresentedToken[] {
  const at = turnedAt.get(presented);
  if (presented === newest) return ['current'];
  if (at === undefined) return ['replay'];
  const old: PresentedToken = presented === parent ? 'late' : 'replay';
  if (now - at < GRACE) return ['repeat'];
  return now - at < GRACE + TOLERANCE && old === 'replay' ? ['repeat', old] : [old];
}

function remember(model: Model, presented: number, now: number): Model {
  const turnedAt = new Map(model.turnedAt).set(presented, now);
  return { newest: model.newest + 1, parent: presented, turnedAt };
}

/** `back`: how many generations behind the newest; `wait`: seconds since the step before. */
const presentation = record({
  back: constantFrom(0, 0, 0, 0, 1, 1, 2, 3, 9, 60),
  wait: constantFrom(0, 0, 0.01, 0.2, 1, 4, 5, 6, 30, 59, 60, 61, 65, 66, 3600),
});

describe('The rules for refresh tokens', () => {
  it('say what a model that forgets nothing says, until a replay ends the family', () => {
    assert(
      property(array(presentation, { minLength: 1, maxLength: 120 }), (steps) => {
        let stored = newRecord();
        let model = newModel();
        let now = START;
        for (const { back, wait } of steps) {
          now += wait;
          const presented = Math.max(0, model.newest - back);
          const { verdict, after, current } = present(stored, presented, now);
          expect(allowed(model, presented, now)).to.include(verdict);
          if (verdict === 'replay') return;
          if (verdict !== 'repeat') model = remember(model, presented, now);
          expect(current, 'what the client is given is the newest').to.equal(model.newest);
          stored = after;
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('leave one live leaf: of all that were given out and not yet turned, only the newest is good', () => {
    assert(
      property(array(presentation, { maxLength: 60 }), (steps) => {
        let stored = newRecord();
        let now = START;
        let leaf = 0;
        const unturned = new Set([leaf]);
        for (const { back, wait } of steps) {
          now += wait;
          const presented = Math.max(0, leaf - back);
          const { verdict, after, current } = present(stored, presented, now);
          if (verdict === 'current') unturned.delete(presented);
          unturned.add(current);
          [stored, leaf] = [after, current];
        }
        const good = [...unturned].filter(
          (generation) => present(stored, generation, now).verdict !== 'replay',
        );
        expect(good).to.deep.equal([leaf]);
      }),
      { numRuns: 500 },
    );
  });

  it('refuse no client that races, however many there are', () => {
    const race = array(record({ client: nat(49), wait: constantFrom(0, 0.001, 0.01, 0.1) }), {
      minLength: 1,
      maxLength: 400,
    });
    assert(
      property(race, (steps) => {
        let stored = newRecord();
        let now = START;
        const held = Array.from({ length: 50 }, () => 0);
        for (const { client, wait } of steps) {
          now += wait;
          const { verdict, after, current } = present(stored, held[client] ?? 0, now);
          expect(verdict).to.be.oneOf(['current', 'repeat']);
          held[client] = current;
          stored = after;
        }
      }),
      { numRuns: 300 },
    );
  });

  it('refuse no client that comes within the minute, although all before it went on at once', () => {
    const queue = record({ clients: integer({ min: 2, max: 200 }), milliseconds: nat(299) });
    assert(
      property(queue, ({ clients, milliseconds }) => {
        let stored = newRecord();
        for (let client = 0; client < clients; client += 1) {
          const now = START + (client * milliseconds) / 1000;
          const first = present(stored, 0, now);
          const second = present(first.after, first.current, now);
          for (const { verdict } of [first, second])
            expect(verdict).to.be.oneOf(['current', 'repeat']);
          stored = second.after;
        }
      }),
    );
  });

  it('refuse no client that races after the store lost the last writes', () => {
    const writes = record({
      before: integer({ min: 1, max: 30 }),
      lost: nat(30),
      holders: array(nat(30), { minLength: 1, maxLength: 20 }),
    });
    assert(
      property(writes, ({ before, lost, holders }) => {
        const states = [newRecord()];
        for (let write = 0; write < before; write += 1) {
          const last = states.at(-1) ?? newRecord();
          states.push(present(last, write, START + write * 0.5).after);
        }
        let stored = states[Math.max(0, before - lost)] ?? newRecord();
        const now = START + before * 0.5 + 10;
        for (const back of holders) {
          const { verdict, after } = present(stored, Math.max(0, before - back), now);
          expect(verdict).to.not.be.oneOf(['late', 'replay']);
          stored = after;
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('keep a dozen entries of the last minute, whatever happens in it', () => {
    assert(
      property(array(presentation, { minLength: 100, maxLength: 400 }), (steps) => {
        let stored = newRecord();
        let now = START;
        for (const { back, wait } of steps) {
          now += wait / 100;
          const newest = stored.refresh?.generation ?? 0;
          stored = present(stored, Math.max(0, newest - back), now).after;
          expect(stored.refresh?.turns.length).to.be.at.most(GRACE / TOLERANCE + 2);
        }
      }),
      { numRuns: 200 },
    );
  });
});
