// A settings file in a directory of its own, loaded with an environment that holds nothing else.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { loadSettings } from '../../src/settings/load.ts';
import { SettingsError, type SettingsIssue } from '../../src/settings/issues.ts';
import type { Settings } from '../../src/settings/settings.ts';

type Environment = Record<string, string>;

/** Right in development, with nothing that could be left out. */
export const DEVELOPMENT = {
  authUrl: 'http://localhost:4000',
  resourceUrl: 'http://localhost:4001',
  developmentIdp: {
    url: 'http://localhost:4003',
    people: [{ id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com' }],
  },
  entitlements: [{ match: { subject: 'ada' }, level: 'full' }],
};

/** Right in production, given a secret. */
export const PRODUCTION = {
  authUrl: 'https://auth.example.com',
  resourceUrl: 'https://mcp.example.com',
  listen: { auth: '0.0.0.0:4000', resource: '0.0.0.0:4001' },
  store: 'redis://redis.example.com:6379',
  identityProvider: { issuer: 'https://login.example.com', clientId: 'gatehouse' },
  entitlements: [{ match: { group: 'analysts' }, level: 'operations' }],
};

export const SECRET = 'a-root-secret-that-is-long-enough';

const parent = mkdtempSync(join(tmpdir(), 'gatehouse-settings-'));
// A hook of this file would run for the first test file that imports it, and for none after that.
process.once('exit', () => rmSync(parent, { recursive: true, force: true }));

/** Lasts as long as the process. */
export function temporaryDirectory(): string {
  return mkdtempSync(join(parent, 'settings-'));
}

/** The path of a new file that holds `content`: YAML text, or settings to be written as YAML. */
export function settingsFile(content: unknown): string {
  const path = join(temporaryDirectory(), 'settings.yaml');
  writeFileSync(path, typeof content === 'string' ? content : stringify(content));
  return path;
}

/** Loads `content` from a file of its own; the data directory is a new one unless the environment names it. */
export function load(content: unknown, environment: Environment = {}): Settings {
  return loadSettings({
    GATEHOUSE_CONFIG: settingsFile(content),
    GATEHOUSE_DATA_DIR: join(temporaryDirectory(), 'data'),
    ...environment,
  });
}

export function loadInProduction(content: unknown, environment: Environment = {}): Settings {
  return load(content, { NODE_ENV: 'production', GATEHOUSE_SECRET: SECRET, ...environment });
}

/** The error with which the call refuses. */
export function refusal(call: () => unknown): SettingsError {
  try {
    call();
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
  throw new Error('the settings were accepted');
}

/** The rules as the file has them, without what was resolved. */
export function rulesIn({ entitlements }: Settings): object[] {
  return entitlements.map(({ match: { from: _from, ...match }, ...rule }) => ({ match, ...rule }));
}

export function issuesIn(
  content: unknown,
  environment: Environment = {},
): readonly SettingsIssue[] {
  return refusal(() => load(content, environment)).issues;
}

/** The names of the settings with a mistake, in order. */
export function wrongSettings(content: unknown, environment: Environment = {}): string[] {
  return issuesIn(content, environment).map(({ setting }) => setting);
}
