// Writes of one turn of the event loop are one transaction of SQLite, and so wait for the disk once and not each.
import type { DatabaseSync } from 'node:sqlite';
import { isBusy, transaction } from './sqlite-file.ts';

/**
 * Resolves to what `write` gave when that is on the disk. `write` is called later, after all that was asked for before it, and once more
 * where it cannot be written together with the others of the turn. What is rejected is not written.
 */
export type Commit = <Result>(write: () => Result) => Promise<Result>;

export type Commits = {
  commit: Commit;
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
    writeAll(db, together);
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

/** What cannot be written, because there is no room for it, must not take the others with it; while the file is locked nothing can be. */
function writeAll(db: DatabaseSync, together: Waiting[]): void {
  try {
    const written = transaction(db, () => together.map(({ write }) => write()));
    for (const answer of written) answer();
  } catch (error) {
    if (together.length > 1 && !isBusy(error)) for (const each of together) writeAll(db, [each]);
    else for (const { refuse } of together) refuse(error);
  }
}
