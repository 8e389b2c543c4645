// What a plan consists of. Each kind of record makes its part; nothing is changed before the whole file was found valid.
import { setImmediate } from 'node:timers/promises';
import { HttpError } from '../../http/errors.ts';
import type { Connector } from '../../links/connector.ts';
import { levelIds, type Levels } from '../../permission-levels.ts';
import type { Result } from '../resources/apply.ts';

/** What happens to a record. `run` is absent if nothing does, and resolves to its id. */
export type Step = Result & { run?: () => Promise<string | undefined> };

/** A connector as it will be. `id` is absent until it is created. */
export type PlannedConnector = Pick<Connector, 'level' | 'expiresAt'> & { id?: string };

/** A problem of the file: `connectors.3.level: …`. */
export type Issues = {
  readonly found: readonly string[];
  add(place: string, problem: string): void;
  /** Runs all checks of a record. Adds what they throw, and returns whether there was nothing. */
  isValid(place: string, ...checks: (() => unknown)[]): boolean;
};

const TURN_MS = 5;

/** Returns all results, with pauses in which other requests are served. */
export async function mapRecords<Item, Found>(
  records: readonly Item[],
  results: (record: Item, n: number) => readonly Found[],
): Promise<Found[]> {
  const found: Found[] = [];
  let began = performance.now();
  for (const [n, record] of records.entries()) {
    if (performance.now() - began > TURN_MS) {
      await setImmediate();
      began = performance.now();
    }
    found.push(...results(record, n));
  }
  return found;
}

export function collectIssues(): Issues {
  const found = new Set<string>();
  /** Many problems begin with the name of the member. */
  const add = (place: string, problem: string) => {
    const isMember = /^(?!unknown: )[a-zA-Z][\w.]*: /.test(problem);
    found.add(`${place}${isMember ? '.' : ': '}${problem}`);
  };
  return {
    get found() {
      return [...found];
    },
    add,
    isValid(place, ...checks) {
      const before = found.size;
      for (const check of checks) {
        try {
          check();
        } catch (error) {
          if (!(error instanceof HttpError)) throw error;
          add(place, error.message);
        }
      }
      return found.size === before;
    },
  };
}

export function invalid(problem: string): HttpError {
  return new HttpError(400, 'invalid_request', problem);
}

export function expectedLevel(levels: Levels): string {
  return `one of ${levelIds(levels).join(', ')}`;
}

export type Keyed = { id: string; key?: string | undefined };

/**
 * Finds the stored record that a record of a file means: the one with its key, else the one without a key that it names by `id` or by a key
 * that is the id. Adds an issue if a record with another key has this id, or if two records of the file mean the same one.
 */
export class Matcher<Stored extends Keyed> {
  readonly #byKey = new Map<string, Stored>();
  readonly #byId = new Map<string, Stored>();
  readonly #matched = new Set<string>();
  readonly #keys = new Set<string>();
  readonly #issues: Issues;

  constructor(stored: readonly Stored[], issues: Issues) {
    this.#issues = issues;
    for (const record of stored) {
      this.#byId.set(record.id, record);
      if (record.key !== undefined) this.#byKey.set(record.key, record);
    }
  }

  /** Returns `refused` if it added an issue. */
  match(
    place: string,
    { key, id }: { key: string; id?: string | undefined },
  ): Stored | 'refused' | undefined {
    const refuse = (problem: string) => {
      this.#issues.add(place, problem);
      return 'refused' as const;
    };
    if (this.#keys.has(key)) return refuse('key: another record of this list has it');
    this.#keys.add(key);
    const byKey = this.#byKey.get(key);
    const found = byKey ?? this.#byId.get(id ?? key);
    if (id !== undefined && found?.id !== id)
      return refuse(
        byKey ? `id: the record with this key has another id` : 'id: there is no such record',
      );
    if (!found) return undefined;
    const named = this.#byId.get(key);
    if (named && named.id !== found.id) return refuse('key: it is the id of another record');
    const isOthers = !byKey && found.key !== undefined && found.key !== found.id;
    if (isOthers) return refuse(`key: the record with this id has the key ${found.key}`);
    if (this.#matched.has(found.id))
      return refuse('key: another record of this list means the same record');
    this.#matched.add(found.id);
    return found;
  }

  claim(record: Stored): void {
    this.#matched.add(record.id);
  }

  isMatched({ id }: Keyed): boolean {
    return this.#matched.has(id);
  }
}
