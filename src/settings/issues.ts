/** `setting` is the environment variable or the path in the file. `given` and `expected` never contain a secret. */
export type SettingsIssue = { setting: string; given: string; expected: string };

/** Reports all issues. The program exits with code 2. */
export class SettingsError extends Error {
  readonly issues: readonly SettingsIssue[];

  constructor(issues: readonly SettingsIssue[]) {
    const count = issues.length === 1 ? 'an error' : `${issues.length} errors`;
    super([`The settings have ${count}:`, ...issues.map(line)].join('\n'));
    this.name = 'SettingsError';
    this.issues = issues;
  }
}

export function characters(count: number): string {
  return `${count} character${count === 1 ? '' : 's'}`;
}

function line({ setting, given, expected }: SettingsIssue): string {
  return `  ${setting}: given ${given}; expected ${expected}`;
}

const MAX_EDITS = 2;

/** Returns the name with the fewest edits (insert, delete, replace), at most MAX_EDITS. */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, edits: edits(written.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= MAX_EDITS && edits < name.length)
    .sort((a, b) => a.edits - b.edits);
  return best?.name;
}

/** Levenshtein distance. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [line, letter] of [...from].entries()) {
    const next = [line + 1];
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
