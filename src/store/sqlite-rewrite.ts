// Goes through all values and all members of sets in a SQLite file and replaces their bytes, for the store to be re-encrypted.
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { ByteStore, Rewriting } from './byte-store.ts';
import type { Commit } from './sqlite-commits.ts';
import { bufferOf } from './sqlite-file.ts';

// So few because SQLite holds up the whole process until they are on the disk.
const ROWS_AT_ONCE = 20;

const KEYS = { entry: ['name'], member: ['name', 'field'] };

export function rewriter(db: DatabaseSync, commit: Commit): ByteStore['rewrite'] {
  return async function* rewrite(rewriting) {
    yield* rewriteTable(db, commit, 'entry', rewriting);
    yield* rewriteTable(db, commit, 'member', rewriting);
  };
}

/** In the order of the key, which a row keeps whatever is written to it. */
async function* rewriteTable(
  db: DatabaseSync,
  commit: Commit,
  table: keyof typeof KEYS,
  rewriting: Rewriting,
): AsyncGenerator<number> {
  const columns = KEYS[table];
  const key = columns.join(', ');
  const marks = columns.map(() => '?').join(', ');
  const select = db.prepare(
    `SELECT ${key}, value FROM ${table} WHERE (${key}) > (${marks}) ORDER BY ${key} LIMIT ${ROWS_AT_ONCE}`,
  );
  const replace = db.prepare(
    `UPDATE ${table} SET value = ? WHERE (${key}) = (${marks}) AND value = ?`,
  );
  const read = (after: string[]) =>
    select.all(...after).map((row) => ({
      place: columns.map((column) => String(row[column])),
      before: bufferOf(row['value']),
    }));
  let rows = read(columns.map(() => ''));
  while (rows.length > 0) {
    const replacements = rows.flatMap(({ place, before }) => {
      const [name = '', field] = place;
      const next = rewriting(before, name, field);
      return next ? [[next, ...place, before]] : [];
    });
    yield replacements.length === 0 ? 0 : await commit(() => runAll(replace, replacements));
    rows = read(rows.at(-1)?.place ?? []);
  }
}

/** How many rows were changed. */
function runAll(statement: StatementSync, runs: SQLInputValue[][]): number {
  return runs.reduce((changes, values) => changes + Number(statement.run(...values).changes), 0);
}
