// The text of the two files that init writes.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ejs from 'ejs';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import type { Secrets } from '../settings/secret-file.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import { type ClassifiedTool, SUGGESTED_LEVELS } from './levels.ts';
import { toolPattern } from '../settings/tool-patterns.ts';
import { LOGOUT_PATH } from '../sign-in/logout-token.ts';
import type { Provider } from './providers.ts';
import type { UpstreamHeader } from './upstream-headers.ts';

export const SETTINGS_NAME = 'gatehouse.yaml';
export const SECRET_NAME = 'gatehouse.secret';
export const DATA_DIR = '.data';
export const DEFAULT_STORE = 'sqlite:gatehouse.sqlite';

/** What the person has decided. `clientSecretFile` is as it is written to the file. */
export type Decisions = {
  authUrl: string;
  resourceUrl: string;
  /** Undefined if the console is on this computer only. */
  managementUrl: string | undefined;
  apps: readonly string[];
  /** Undefined if the secret file has it. */
  store: string | undefined;
  provider: Provider;
  issuer: string | undefined;
  clientId: string | undefined;
  clientSecretFile: string | undefined;
  upstream:
    | {
        url: string;
        privateNetwork: boolean;
        headers: readonly UpstreamHeader[];
        tools: readonly ClassifiedTool[];
      }
    | undefined;
};

const TEMPLATE = join(PACKAGE_FOLDER, 'config/gatehouse.yaml.ejs');

/** Returns a settings file in YAML. */
export function settingsText(decisions: Decisions): string {
  const { authUrl, managementUrl, upstream } = decisions;
  const values = {
    ...decisions,
    listeners: listeners(decisions),
    redirectUri: redirectUri(authUrl),
    consoleRedirectUri: managementUrl && consoleRedirectUri(managementUrl),
    logoutUrl: authUrl + LOGOUT_PATH,
    levels: SUGGESTED_LEVELS,
    tools: toolGroups(upstream?.tools ?? []),
    toolSets: toolSets(upstream?.tools ?? []),
  };
  return ejs.render(readFileSync(TEMPLATE, 'utf8'), values, { escape: scalar });
}

/** Gatehouse serves plain http, so an https address needs a listener of its own. */
function listeners({
  authUrl,
  resourceUrl,
  managementUrl,
}: Decisions): [name: string, port: number][] {
  const isProxied = (url: string) => url.startsWith('https:') || !isLoopbackUrl(url);
  return [
    ...(isProxied(authUrl) ? [['auth', 4000] as [string, number]] : []),
    ...(isProxied(resourceUrl)
      ? [['resource', authUrl === resourceUrl ? 4000 : 4001] as [string, number]]
      : []),
    ...(managementUrl && isProxied(managementUrl)
      ? [['management', 4002] as [string, number]]
      : []),
  ];
}

export function consoleRedirectUri(managementUrl: string): string {
  return `${managementUrl}/console/callback`;
}

export function redirectUri(authUrl: string): string {
  return `${authUrl}/interaction/callback`;
}

/** The tools that init gives each of the levels. */
const ABOUT_TOOLS = [
  'Tools that say that they only read.',
  'Tools that say that they write, and delete or overwrite nothing.',
  'All other tools: they may delete or overwrite, or do not say what they do.',
];

function toolGroups(tools: readonly ClassifiedTool[]) {
  return SUGGESTED_LEVELS.map(({ id }, n) => ({
    level: id,
    about: ABOUT_TOOLS[n],
    members: tools
      .filter(({ level }) => level === id)
      .map(({ name, title }) => ({ name, comment: toolComment(name, oneLine(title)) })),
  })).filter(({ members }) => members.length > 0);
}

const MAX_SUGGESTED = 10;

/** Lists for a rule that opens less than its level, from what the tools say about themselves. None if the list is too long for a comment. */
function toolSets(tools: readonly ClassifiedTool[]): { about: string; patterns: string }[] {
  const [lowest] = SUGGESTED_LEVELS;
  const highest = SUGGESTED_LEVELS.at(-1);
  const set = (level: string | undefined, prefix: string, about: string) => {
    const named = tools.filter((tool) => tool.level === level).map(({ name }) => prefix + name);
    const isShort = named.length > 0 && named.length <= MAX_SUGGESTED;
    if (!isShort || named.length === tools.length) return [];
    if (!named.every((pattern) => toolPattern.safeParse(pattern).success)) return [];
    return [{ about, patterns: `[${named.map((name) => JSON.stringify(name)).join(', ')}]` }];
  };
  return [
    ...set(
      lowest?.id,
      '',
      'To open less than the level, name tools. These say that they only read:',
    ),
    ...set(
      highest?.id,
      '!',
      'Or take out those that may delete or overwrite, also from higher levels:',
    ),
  ];
}

function toolComment(name: string, title: string): string {
  return title === '' || title === name ? '' : ` # ${title}`;
}

const MAX_TITLE_LENGTH = 60;

/** Text of the MCP server must not end the comment. */
function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > MAX_TITLE_LENGTH ? `${line.slice(0, MAX_TITLE_LENGTH)}…` : line;
}

/** A plain scalar where that is safe, otherwise a double-quoted one, which YAML shares with JSON. */
function scalar(text: string): string {
  return /^(\.{0,2}\/|[A-Za-z])([\w./:@+-]*[\w./])?$/.test(text) &&
    !/^(true|false|null|yes|no|on|off)$/i.test(text)
    ? text
    : JSON.stringify(text);
}

const ABOUT: Readonly<Record<keyof Secrets, string>> = {
  GATEHOUSE_SECRET:
    'Root secret, from which all keys are derived. Keep a copy in a safe place: without it, the store cannot be read.',
  GATEHOUSE_PREVIOUS_SECRET: 'Previous root secret.',
  GATEHOUSE_MANAGEMENT_KEY: 'Key of the management API, which the command line uses.',
  GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'Client secret that the identity provider gave to Gatehouse.',
  GATEHOUSE_STORE: 'Address of the database, with its password.',
};

/** Returns a secret file. */
export function secretText(secrets: Secrets): string {
  const names = Object.keys(ABOUT) as (keyof Secrets)[];
  const entries = names.flatMap((name) =>
    secrets[name] === undefined ? [] : [`\n# ${ABOUT[name]}\n${name}=${secrets[name]}\n`],
  );
  return `# Secrets of Gatehouse, written by \`gatehouse init\`. Keep this file out of version control.\n${entries.join('')}`;
}
