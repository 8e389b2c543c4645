// Writes of one turn of the event loop are one transaction of SQLite, and so wait for the disk once and not each.
import type { DatabaseSync } from 'node:sqlite';
import { transaction } from './sqlite-file.ts';

export type Commits = {
  /**
   * Resolves to what `write` gave when that is on the disk. `write` is called later, after all that was asked for before it. Where one fails, or the
   * disk does, all of the turn are rejected and nothing of them is written.
   */
  commit: <Result>(write: () => Result) => Promise<Result>;
  /** At once, what waits for the end of the turn. */
  flush: () => void;
};

type Waiting = {
  /** Gives what is to be called once it is on the disk. */
  write: () => () => void;
  refuse: (error: unknown) => void;
};

export function openCommits(db: DatabaseSync): Commits {
  let waiting: Waiting[] = [];

  const flush = () => {
    const together = waiting;
    waiting = [];
    try {
      const written = transaction(db, () => together.map(({ write }) => write()));
      for (const answer of written) answer();
    } catch (error) {
      for (const { refuse } of together) refuse(error);
    }
  };
  return {
    flush,
    commit(write) {
      if (waiting.length === 0) setImmediate(flush);
      return new Promise((resolve, refuse) => {
        const answered = () => {
          const result = write();
          return () => resolve(result);
        };
        waiting.push({ write: answered, refuse });
      });
    },
  };
}
