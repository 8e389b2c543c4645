// Runs `gatehouse init` in this process, in new folders.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadSettings } from '../../src/settings/load.ts';
import type { Settings } from '../../src/settings/settings.ts';
import { gatehouse, type Outcome } from '../management/command-line.ts';
import { temporaryDirectory } from '../settings/settings-file.ts';

export function words(text: string): string[] {
  return text.split(' ');
}

/** The options of a deployment in production, without an identity provider. */
export const PUBLIC = words(
  '--auth-url https://auth.example.com --resource-url https://mcp.example.com',
);

/** Runs init without a terminal and without contacting anything. */
export function initOffline(folder: string, ...args: string[]): Promise<Outcome> {
  return init(folder, '--offline', ...args);
}

export function init(folder: string, ...args: string[]): Promise<Outcome> {
  return initWith({}, folder, ...args);
}

export function initWith(
  environment: Record<string, string>,
  folder: string,
  ...args: string[]
): Promise<Outcome> {
  return gatehouse(['init', '--dir', folder, ...args], environment);
}

/** Requires that init refuses without a trace, and resolves to its error. */
export async function refusedInit(...args: string[]): Promise<string> {
  const folder = join(temporaryDirectory(), 'new');
  const { code, stdout, stderr } = await initOffline(folder, ...args);
  expect({ code, stdout }, stderr).to.deep.equal({ code: 2, stdout: '' });
  expect(existsSync(folder)).to.equal(false);
  return stderr;
}

export function read(folder: string, name: string): string {
  return readFileSync(join(folder, name), 'utf8');
}

export function namesIn(folder: string): string[] {
  return readdirSync(folder).toSorted();
}

/** Loads the written settings as Gatehouse does, without making secrets. */
export function loadWritten(folder: string, environment: Record<string, string> = {}): Settings {
  const GATEHOUSE_CONFIG = join(folder, 'gatehouse.yaml');
  return loadSettings({ GATEHOUSE_CONFIG, ...environment }, { makesSecrets: false });
}
