// Address and key of the management API for the command line. Reads and validates no other setting.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSource } from './read-source.ts';
import { errorCode, issueAt, resolveDataDir, type Source, valueAt } from './source.ts';
import type { CommandLineSettings, Environment } from './environment.ts';
import { checkManagementKey, readSecret } from './secrets.ts';
import { SettingsError } from './issues.ts';
import { settingsSchema } from './schema.ts';

export type ManagementAccess = { url: string; key: string; listener: string | undefined };

const KEY = 'GATEHOUSE_MANAGEMENT_KEY';
const { managementUrl, dataDir, listen } = settingsSchema.shape;

/** Throws SettingsError. Ignores issues of other settings, which the server reports at its start. */
export function findManagementAccess(
  environment: Environment = process.env,
  options: CommandLineSettings = {},
): ManagementAccess {
  const source = readSource(environment, options);
  const key = givenKey(source.environment) ?? generatedKey(source);
  const url = setting(source, 'managementUrl', managementUrl);
  return { url, key, listener: listenerOf(source, url) };
}

/** Settings with a listener are those of the process itself, which can be reached without the proxy in front of it. */
function listenerOf({ document }: Source, url: string): string | undefined {
  const { success, data } = listen.safeParse(valueAt(document, ['listen']) ?? {});
  if (!success || !data.management || url.startsWith('http:')) return undefined;
  const { host, port } = data.management;
  return `http://${reachable(host)}:${port}`;
}

function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
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
