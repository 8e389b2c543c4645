// Address and key of the management API for the command line. Reads and validates no other setting.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSource } from './read-source.ts';
import { errorCode, issueAt, resolveDataDir, type Source, valueAt } from './source.ts';
import type { CommandLineSettings, Environment } from './environment.ts';
import { checkManagementKey, readSecret } from './secrets.ts';
import { SettingsError } from './issues.ts';
import { settingsSchema } from './schema.ts';

export type ManagementAccess = { url: string; key: string };

const KEY = 'GATEHOUSE_MANAGEMENT_KEY';
const { managementUrl, dataDir } = settingsSchema.shape;

/** Throws SettingsError. Ignores issues of other settings, which the server reports at its start. */
export function findManagementAccess(
  environment: Environment = process.env,
  options: CommandLineSettings = {},
): ManagementAccess {
  const source = readSource(environment, options);
  const key = givenKey(source.environment) ?? generatedKey(source);
  return { url: setting(source, 'managementUrl', managementUrl), key };
}

type Schema = typeof managementUrl | typeof dataDir;

function setting(source: Source, name: string, schema: Schema): string {
  const parsed = schema.safeParse(valueAt(source.document, [name]));
  if (parsed.success) return parsed.data;
  const expected = parsed.error.issues.map(({ message }) => message).join(', ');
  throw new SettingsError([issueAt(source, [name], expected)]);
}

function givenKey(environment: Environment): string | undefined {
  const { value, issues } = readSecret(environment, KEY);
  if (issues.length > 0) throw new SettingsError(issues);
  return value && sendable(value, KEY);
}

function generatedKey(source: Source): string {
  if (source.issues.length > 0) throw new SettingsError(source.issues);
  const file = join(resolveDataDir(source, setting(source, 'dataDir', dataDir)), 'management.key');
  try {
    return sendable(readFileSync(file, 'utf8').trim(), file);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    const given = `nothing, and ${file} cannot be read (${errorCode(cause)})`;
    const expected =
      'the management key; Gatehouse generates the file at its first start (npx gatehouse start)';
    throw new SettingsError([{ setting: KEY, given, expected }]);
  }
}

function sendable(key: string, from: string): string {
  const issues = checkManagementKey(key, from);
  if (issues.length > 0) throw new SettingsError(issues);
  return key;
}
