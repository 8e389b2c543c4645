// A mistake in the settings, and the error that reports all of them at once.

/** `setting` is the environment variable or the path in the file; `given` and `expected` are for people and never hold a secret. */
export type Mistake = { setting: string; given: string; expected: string };

/** The settings cannot be used. Nothing was started; the program ends with exit code 2. */
export class SettingsError extends Error {
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    const count = mistakes.length === 1 ? 'a mistake' : `${mistakes.length} mistakes`;
    super([`The settings have ${count}:`, ...mistakes.map(line)].join('\n'));
    this.name = 'SettingsError';
    this.mistakes = mistakes;
  }
}

export function characters(count: number): string {
  return `${count} character${count === 1 ? '' : 's'}`;
}

function line({ setting, given, expected }: Mistake): string {
  return `  ${setting}: given ${given}; expected ${expected}`;
}
