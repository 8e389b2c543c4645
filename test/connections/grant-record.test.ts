// Compares the refresh token rules with a model that stores every rotation.
import { expect } from 'chai';
import { array, assert, constantFrom, integer, nat, property, record } from 'fast-check';
import {
  type GrantRecord,
  classifyRefreshToken,
  rotate,
  type PresentedToken,
} from '../../src/connections/grant-record.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

const GRACE = 60;
/** Rotations within these seconds are recorded with the time of the last one. */
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

/** Presents a generation as a refresh does. Returns its class and the resulting record. */
function present(before: GrantRecord, generation: number, now: number) {
  const { refresh } = before;
  if (!refresh) throw new Error('the record has no refresh token');
  const kind = classifyRefreshToken(refresh, generation, now, GRACE);
  const isUnchanged = kind === 'repeat' || kind === 'replay';
  const after = isUnchanged ? before : rotate(before, refresh, generation, now, GRACE);
  return { kind, after, current: after.refresh?.generation ?? -1 };
}

/** The newest generation, its parent, and when each generation was last rotated. */
type Model = { newest: number; parent: number | undefined; rotatedAt: Map<number, number> };

function newModel(): Model {
  return { newest: 0, parent: undefined, rotatedAt: new Map() };
}

/** The permitted classes. Within the tolerance two are permitted. */
function allowed(
  { newest, parent, rotatedAt }: Model,
  presented: number,
  now: number,
): PresentedToken[] {
  const at = rotatedAt.get(presented);
  if (presented === newest) return ['current'];
  if (at === undefined) return ['replay'];
  const old: PresentedToken = presented === parent ? 'late' : 'replay';
  if (now - at < GRACE) return ['repeat'];
  return now - at < GRACE + TOLERANCE && old === 'replay' ? ['repeat', old] : [old];
}

function remember(model: Model, presented: number, now: number): Model {
  const rotatedAt = new Map(model.rotatedAt).set(presented, now);
  return { newest: model.newest + 1, parent: presented, rotatedAt };
}

/** `back`: generations behind the newest. `wait`: seconds since the previous step. */
const presentation = record({
  back: constantFrom(0, 0, 0, 0, 1, 1, 2, 3, 9, 60),
  wait: constantFrom(0, 0, 0.01, 0.2, 1, 4, 5, 6, 30, 59, 60, 61, 65, 66, 3600),
});

/** A quarter of the runs finds the same mistakes, except rare ones. */
const runs = (count: number) => (SOAK ? count : count / 4);

describe('The refresh token rules', () => {
  it('REF-02 the rules agree with a model of the full history until a replay ends the family', () => {
    assert(
      property(array(presentation, { minLength: 1, maxLength: 120 }), (steps) => {
        let stored = newRecord();
        let model = newModel();
        let now = START;
        for (const { back, wait } of steps) {
          now += wait;
          const presented = Math.max(0, model.newest - back);
          const { kind, after, current } = present(stored, presented, now);
          expect(allowed(model, presented, now)).to.include(kind);
          if (kind === 'replay') return;
          if (kind !== 'repeat') model = remember(model, presented, now);
          expect(current, 'the client gets the newest generation').to.equal(model.newest);
          stored = after;
        }
      }),
      { numRuns: runs(2000) },
    );
  });

  it('REF-02 of all issued tokens that were not rotated, only the newest is valid', () => {
    assert(
      property(array(presentation, { maxLength: 60 }), (steps) => {
        let stored = newRecord();
        let now = START;
        let leaf = 0;
        const unrotated = new Set([leaf]);
        for (const { back, wait } of steps) {
          now += wait;
          const presented = Math.max(0, leaf - back);
          const { kind, after, current } = present(stored, presented, now);
          if (kind === 'current') unrotated.delete(presented);
          unrotated.add(current);
          [stored, leaf] = [after, current];
        }
        const valid = [...unrotated].filter(
          (generation) => present(stored, generation, now).kind !== 'replay',
        );
        expect(valid).to.deep.equal([leaf]);
      }),
      { numRuns: runs(500) },
    );
  });

  it('REF-03 concurrent refreshes of any number of clients are never refused', () => {
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
          const { kind, after, current } = present(stored, held[client] ?? 0, now);
          expect(kind).to.be.oneOf(['current', 'repeat']);
          held[client] = current;
          stored = after;
        }
      }),
      { numRuns: runs(300) },
    );
  });

  it('a client that refreshes within a minute is not refused, although earlier clients already used the successor', () => {
    const queue = record({ clients: integer({ min: 2, max: 200 }), milliseconds: nat(299) });
    assert(
      property(queue, ({ clients, milliseconds }) => {
        let stored = newRecord();
        for (let client = 0; client < clients; client += 1) {
          const now = START + (client * milliseconds) / 1000;
          const first = present(stored, 0, now);
          const second = present(first.after, first.current, now);
          for (const { kind } of [first, second]) expect(kind).to.be.oneOf(['current', 'repeat']);
          stored = second.after;
        }
      }),
      { numRuns: runs(100) },
    );
  });

  it('concurrent refreshes after the store lost its last writes are never refused', () => {
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
          const { kind, after } = present(stored, Math.max(0, before - back), now);
          expect(kind).to.not.be.oneOf(['late', 'replay']);
          stored = after;
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it('the record keeps at most fourteen rotations', () => {
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
      { numRuns: runs(200) },
    );
    recordSoak({
      what: 'Random histories of refreshes against the refresh token rules',
      held: `${runs(4100)} histories, as the rules say`,
    });
  });
});
