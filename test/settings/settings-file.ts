// Loads settings from a file in a temporary directory, with an otherwise empty environment.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { loadSettings } from '../../src/settings/load.ts';
import { SettingsError, type SettingsIssue } from '../../src/settings/issues.ts';
import type { Settings } from '../../src/settings/settings.ts';

type Environment = Record<string, string>;

/** Minimal valid development settings. */
export const DEVELOPMENT = {
  authUrl: 'http://localhost:4000',
  resourceUrl: 'http://localhost:4001',
  developmentIdp: {
    url: 'http://localhost:4003',
    people: [{ id: 'ada', name: 'Ada Lovelace', email: 'ada@example.com' }],
  },
  entitlements: [{ match: { subject: 'ada' }, level: 'full' }],
};

/** Minimal valid production settings, given a secret. */
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
// A root hook of this file would run only for the first test file that imports it.
process.once('exit', () => rmSync(parent, { recursive: true, force: true }));

/** Removed when the process exits. */
export function temporaryDirectory(): string {
  return mkdtempSync(join(parent, 'settings-'));
}

/** Writes a new file with YAML text, or with settings as YAML, and returns its path. */
export function settingsFile(content: unknown): string {
  const path = join(temporaryDirectory(), 'settings.yaml');
  writeFileSync(path, typeof content === 'string' ? content : stringify(content));
  return path;
}

/** Loads `content` from a new file; the data directory is new unless the environment names one. */
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

/** Returns the SettingsError that the call throws. */
export function refusal(call: () => unknown): SettingsError {
  try {
    call();
  } catch (error) {
    if (error instanceof SettingsError) return error;
    throw error;
  }
  throw new Error('the settings were accepted');
}

/** The rules as written in the file, without resolved members. */
export function rulesIn({ entitlements }: Settings): object[] {
  return entitlements.map(({ match: { from: _from, ...match }, ...rule }) => ({ match, ...rule }));
}

export function issuesIn(
  content: unknown,
  environment: Environment = {},
): readonly SettingsIssue[] {
  return refusal(() => load(content, environment)).issues;
}

/** The names of the settings with an issue, in order. */
export function wrongSettings(content: unknown, environment: Environment = {}): string[] {
  return issuesIn(content, environment).map(({ setting }) => setting);
}
