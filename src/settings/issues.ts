/** `setting` is the environment variable or the path in the file; `given` and `expected` are for people and never hold a secret. */
export type SettingsIssue = { setting: string; given: string; expected: string };

/** The settings cannot be used. Nothing was started; the program ends with exit code 2. */
export class SettingsError extends Error {
  readonly issues: readonly SettingsIssue[];

  constructor(issues: readonly SettingsIssue[]) {
    const count = issues.length === 1 ? 'a mistake' : `${issues.length} mistakes`;
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
