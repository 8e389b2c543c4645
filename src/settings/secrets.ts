// Secrets from the environment, from a file, or generated at the first start in the data directory.
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Environment } from './environment.ts';
import { SettingsError, type SettingsIssue, characters } from './issues.ts';
import { errorCode, hidden } from './source.ts';

/** The value, or the issues with it. Both are empty if nothing was set. */
export type Reading<T = string> = { value?: T; issues: SettingsIssue[] };

/** Several values, unless one of them has issues. */
export function allOf<T>(readings: readonly Reading<T>[]): Reading<T[]> {
  const issues = readings.flatMap((reading) => reading.issues);
  if (issues.length > 0) return { issues };
  return { value: readings.flatMap(({ value }) => (value === undefined ? [] : [value])), issues };
}

/** Of secrets that Gatehouse itself checks. */
export const MIN_CHARACTERS = 32;

/** Reads a secret from the variable `name` or the file in `<name>_FILE`. */
export function readSecret(
  environment: Environment,
  name: string,
  minCharacters = MIN_CHARACTERS,
): Reading {
  const text = environment[name];
  const file = environment[`${name}_FILE`];
  if (text && file) {
    const given = `a value, and a file in ${name}_FILE`;
    return { issues: [{ setting: name, given, expected: 'only one of them' }] };
  }
  if (file) return readSecretFile(file, `${name}_FILE`, { minCharacters });
  return text ? checkSecret(text, name, minCharacters) : { issues: [] };
}

/** Returns the content of the file without surrounding white space. Relative paths are resolved from `base`. */
export function readSecretFile(
  file: string,
  setting: string,
  { minCharacters = 1, base = '' } = {},
): Reading {
  try {
    return checkSecret(readFileSync(resolve(base, file), 'utf8'), setting, minCharacters);
  } catch (cause) {
    const expected = `a readable file (${errorCode(cause)})`;
    return { issues: [{ setting, given: shownPath(file), expected }] };
  }
}

/** Returns the value of a variable that the settings file names, without surrounding white space. Gatehouse's own variables hold its secrets. */
export function readVariable(
  environment: Environment,
  setting: string,
  name: string,
  { minCharacters = 1 } = {},
): Reading {
  const issue = (given: string, expected: string): { issues: SettingsIssue[] } => ({
    issues: [{ setting, given, expected }],
  });
  if (!/^[A-Za-z_]\w*$/.test(name))
    return issue(hidden(name), 'the name of an environment variable');
  // A name in another form may be the value, set in the wrong place.
  const shown = /^[A-Z][A-Z0-9_]*$/.test(name) ? name : hidden(name);
  if (/^GATEHOUSE_/i.test(name))
    return issue(shown, 'a variable of your own, whose name does not start with GATEHOUSE_');
  // Not what every object inherits, such as constructor.
  const value = Object.hasOwn(environment, name) ? environment[name]?.trim() : undefined;
  return value
    ? checkSecret(value, setting, minCharacters)
    : issue(`${shown}, which is not set`, 'a variable with a value');
}

/** Hides a value that does not look like a path: it may be the secret, set in the wrong place. */
export function shownPath(file: string): string {
  return /^\.{0,2}\/|^[\w-]{1,20}\.[a-z]{2,8}$/.test(file) ? JSON.stringify(file) : hidden(file);
}

function checkSecret(text: string, setting: string, minCharacters: number): Reading {
  const value = text.trim();
  if (value.length >= minCharacters) return { value, issues: [] };
  const expected = `at least ${characters(minCharacters)}`;
  return { issues: [{ setting, given: hidden(value), expected }] };
}

/**
 * Returns the secret in `<directory>/<name>`, or generates it: 256 random bits, readable only by this user. Processes that start
 * concurrently get the same secret. Throws SettingsError for a damaged file, and errors of node:fs if it cannot be written.
 */
export function keepSecret(directory: string, name: string, random = randomBytes): string {
  const path = join(directory, name);
  const text = readIfThere(path) ?? createSecret(directory, path, random);
  const { value, issues } = checkSecret(text, path, MIN_CHARACTERS);
  if (value) return value;
  const hint = 'restore the file, or remove it so that a new secret is generated';
  throw new SettingsError(
    issues.map((issue) => ({ ...issue, expected: `${issue.expected}: ${hint}` })),
  );
}

function createSecret(directory: string, path: string, random: typeof randomBytes): string {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const draft = `${path}.${random(8).toString('hex')}`;
  writeFileSync(draft, `${random(32).toString('base64url')}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  });
  try {
    // Unlike a rename, a link never replaces the file of a concurrent process.
    linkSync(draft, path);
  } catch (cause) {
    if (errorCode(cause) !== 'EEXIST') throw cause;
  } finally {
    rmSync(draft);
  }
  return readFileSync(path, 'utf8');
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') return undefined;
    throw cause;
  }
}

/** Clients send the key in a header (RFC 9110 section 5.5). `setting` names the source of the key. */
export function checkManagementKey(key: string | undefined, setting: string): SettingsIssue[] {
  if (key === undefined || /^[\x21-\x7e]+$/.test(key)) return [];
  const given = key ? 'a value with spaces or characters outside ASCII' : 'nothing';
  return [{ setting, given, expected: 'the management key on one line' }];
}
