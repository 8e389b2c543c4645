// Secrets: given in the environment, in a file, or made on first use and kept in the data directory.
import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Environment } from './environment.ts';
import { SettingsError, type SettingsIssue, characters } from './issues.ts';
import { errorCode, hidden } from './source.ts';

/** What was read, or why it cannot be used; neither when nothing was given. */
export type Reading<T = string> = { value?: T; issues: SettingsIssue[] };

/** Characters. */
const SHORTEST = 32;

/** A secret of at least 32 characters in the variable `name`, or in the file named by `<name>_FILE`. */
export function readSecret(environment: Environment, name: string): Reading {
  const text = environment[name];
  const file = environment[`${name}_FILE`];
  if (text && file) {
    const given = `a value, and a file in ${name}_FILE`;
    return { issues: [{ setting: name, given, expected: 'only one of them' }] };
  }
  if (file) return readSecretFile(file, `${name}_FILE`, { shortest: SHORTEST });
  return text ? checkSecret(text, name, SHORTEST) : { issues: [] };
}

/** The content of the file without space around it. A relative path starts at `base`. */
export function readSecretFile(
  file: string,
  setting: string,
  { shortest = 1, base = '' } = {},
): Reading {
  try {
    return checkSecret(readFileSync(resolve(base, file), 'utf8'), setting, shortest);
  } catch (cause) {
    // What does not look like a path may be the secret itself, put into the wrong variable.
    const given = /^\.{0,2}\//.test(file) ? JSON.stringify(file) : hidden(file);
    const expected = `a readable file (${errorCode(cause)})`;
    return { issues: [{ setting, given, expected }] };
  }
}

function checkSecret(text: string, setting: string, shortest: number): Reading {
  const value = text.trim();
  if (value.length >= shortest) return { value, issues: [] };
  const expected = `at least ${characters(shortest)}`;
  return { issues: [{ setting, given: hidden(value), expected }] };
}

/**
 * The secret in `<directory>/<name>`, made on first use: 256 random bits, readable by this user only. Processes that start
 * together agree on one. Throws SettingsError for a damaged file, and what node:fs throws where nothing can be written.
 */
export function keepSecret(directory: string, name: string, random = randomBytes): string {
  const path = join(directory, name);
  const text = readIfThere(path) ?? createSecret(directory, path, random);
  const { value, issues } = checkSecret(text, path, SHORTEST);
  if (value) return value;
  const hint = 'restore the file, or remove it to have a new one made';
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
    // A link, unlike a rename, never replaces the file of a process that was faster, and is never seen half written.
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

/** The mistake of a key that no client could send. `setting` is where the key is from. */
export function checkManagementKey(key: string | undefined, setting: string): SettingsIssue[] {
  if (key === undefined || /^[\x21-\x7e]+$/.test(key)) return [];
  const given = key ? 'a value with spaces or characters outside ASCII' : 'nothing';
  return [{ setting, given, expected: 'the management key on one line' }];
}
