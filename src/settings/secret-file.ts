// The secrets in the file that the setting `secretFile` names.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';
import { errorCode } from './source.ts';
import { type Reading, shownPath } from './secrets.ts';

/** Each is also the environment variable that takes precedence. */
export const SECRET_NAMES = [
  'GATEHOUSE_SECRET',
  'GATEHOUSE_PREVIOUS_SECRET',
  'GATEHOUSE_MANAGEMENT_KEY',
  'GATEHOUSE_IDENTITY_PROVIDER_SECRET',
  'GATEHOUSE_STORE',
] as const;

export type SecretName = (typeof SECRET_NAMES)[number];
export type Secrets = Partial<Record<SecretName, string>>;

const SETTING = 'secretFile';
const LINE = /^([A-Z][A-Z_]*)=(.*)$/;
const EXPECTED = `NAME=value, where NAME is one of ${SECRET_NAMES.join(', ')}`;

/**
 * Reads lines of the form `NAME=value`, or one line that is the root secret. Skips empty lines and lines that start with `#`. Values are taken
 * as they are, without quotes or escapes. Relative paths are resolved from `folder`.
 */
export function readSecrets(file: string, folder: string): Reading<Secrets> {
  try {
    return parseSecrets(readFileSync(resolve(folder, file), 'utf8'));
  } catch (cause) {
    const expected = `a readable file (${errorCode(cause)})`;
    return { issues: [{ setting: SETTING, given: shownPath(file), expected }] };
  }
}

function parseSecrets(text: string): Reading<Secrets> {
  const lines = text
    .split('\n')
    .map((line, index) => ({ content: line.trim(), number: index + 1 }))
    .filter(({ content }) => content !== '' && !content.startsWith('#'));
  const [first, ...others] = lines;
  if (first && others.length === 0 && !LINE.test(first.content))
    return { value: { GATEHOUSE_SECRET: first.content }, issues: [] };
  const value: Secrets = {};
  const issues: SettingsIssue[] = [];
  for (const { content, number } of lines) {
    const [, name = '', secret = ''] = LINE.exec(content) ?? [];
    const given = wrongLine(value, name, secret);
    if (given) issues.push({ setting: `${SETTING}, line ${number}`, given, expected: EXPECTED });
    else if (isSecretName(name)) value[name] = secret.trim();
  }
  return issues.length > 0 ? { issues } : { value, issues };
}

/** Says what is wrong with a line, without its value. */
function wrongLine(before: Secrets, name: string, secret: string): string | undefined {
  if (name === '') return 'a line without NAME=';
  if (!isSecretName(name)) return `an unknown name, ${name}`;
  if (before[name] !== undefined) return `${name} for the second time`;
  return secret.trim() === '' ? `${name} without a value` : undefined;
}

function isSecretName(name: string): name is SecretName {
  return SECRET_NAMES.some((known) => known === name);
}

/** Adds the secrets that the environment does not set itself. */
export function withSecrets(environment: Environment, secrets: Secrets): Environment {
  const missing = Object.entries(secrets).filter(
    ([name]) => !environment[name] && !environment[`${name}_FILE`],
  );
  return { ...environment, ...Object.fromEntries(missing) };
}
