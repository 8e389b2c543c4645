// Compares settings: what changed, what a process can only read at its start, and whether processes have the same.
import { createHmac, type KeyObject } from 'node:crypto';
import { isObject } from '../json-values.ts';
import type { Settings } from '../settings/settings.ts';

/** Top-level settings under other names than those of the settings file. */
const NAMES: Readonly<Record<string, string>> = {
  upstreams: 'resourceServer.upstreams',
  managementKey: 'GATEHOUSE_MANAGEMENT_KEY',
  managementKeys: 'management.keys',
  secret: 'GATEHOUSE_SECRET',
  previousSecret: 'GATEHOUSE_PREVIOUS_SECRET',
};

/** Follow from other settings, and are in no settings file. */
const DERIVED =
  /^(environmentName|hasOwnManagementKey|forwardProxy|resourceServer\.upstreams\.[^.]+\.(setting|isNamed)|identityProviders\.[^.]+\.(embedded|listed))$/;

const READ_AT_START = [
  'authUrl',
  'resourceUrl',
  'managementUrl',
  'developmentIdp.url',
  'listen',
  'roles',
  'workers',
  'store',
  'storeId',
  'dataDir',
  'production',
  'GATEHOUSE_SECRET',
  'GATEHOUSE_PREVIOUS_SECRET',
];

/** What differs between the processes of a system by intent, or belongs to the start of a process. */
const OF_ONE_PROCESS = new Set([
  'listen',
  'roles',
  'workers',
  'dataDir',
  'store',
  'secret',
  'previousSecret',
  'managementKey',
  'hasOwnManagementKey',
  'managementKeys',
  'environmentName',
  'forwardProxy',
  'theme',
  'secretFile',
]);

/** Returns the names of the settings whose values differ, sorted. Contains no values. */
export function changedSettings(before: Settings, after: Settings): string[] {
  const [old, next] = [valuesIn(before), valuesIn(after)];
  const names = new Set([...old.keys(), ...next.keys()]);
  return [...names].filter((name) => old.get(name) !== next.get(name)).sort();
}

/** Those of the names that a process reads only at its start. */
export function readAtStart(names: readonly string[]): string[] {
  return names.filter((name) =>
    READ_AT_START.some((key) => name === key || name.startsWith(`${key}.`)),
  );
}

/**
 * Every value as JSON by its name, such as `limits.signIns.inAll`. Items of a list count one by one if they have ids, and the list itself
 * has their order: the lowest level is the first.
 */
function valuesIn(settings: Settings): Map<string, string> {
  const values = new Map<string, string>();
  const add = (name: string, value: unknown) => {
    if (value === undefined || DERIVED.test(name)) return;
    const entries = entriesOf(value);
    if (Array.isArray(value))
      values.set(name, JSON.stringify(entries ? entries.map(([id]) => id) : value));
    else if (!entries) values.set(name, JSON.stringify(value));
    for (const [key, member] of entries ?? []) add(`${name}.${key}`, member);
  };
  for (const [key, value] of Object.entries(settings)) add(NAMES[key] ?? key, value);
  return values;
}

function entriesOf(value: unknown): [string, unknown][] | undefined {
  if (isObject(value)) return isRate(value) ? undefined : Object.entries(value);
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const ids = value.map((item: unknown) => (isObject(item) ? item['id'] : undefined));
  if (!ids.every((id) => typeof id === 'string')) return undefined;
  return value.map((item: unknown, n) => [String(ids[n]), item]);
}

/** The file has it as one text, such as `60/1m`. */
function isRate(value: object): boolean {
  return Object.keys(value).sort().join() === 'count,seconds';
}

/** Keyed digests, which tell nothing about values. */
export type SettingsDigest = {
  /** Of all settings that every process has. */
  settings: string;
  /** Of each secret that the process uses, by the name of its setting. Others use other secrets. */
  secrets: Record<string, string>;
};

/** By the last part of the name. The path of a file is none. */
const SECRET = /(secret|key)s?$|headers\.[^.]+$/i;
/** Each process has its own path to the same file. */
const FILE_OF_ISSUER = /^authorization\.trustedIssuers\..*\.(ca|token)File$/;
const DIGEST_BYTES = 12;

/** `key` is the same in all processes, also while some of them have another root secret. */
export function digestOf(settings: Settings, key: KeyObject): SettingsDigest {
  const digest = (text: string) =>
    createHmac('sha256', key).update(text).digest('base64url').slice(0, DIGEST_BYTES);
  const shared = Object.entries(settings).filter(([name]) => !OF_ONE_PROCESS.has(name));
  const plain = [...valuesIn(Object.fromEntries(shared) as Settings)].filter(
    ([name]) => !SECRET.test(name) && !FILE_OF_ISSUER.test(name),
  );
  const secrets = secretsIn(settings).map(([name, value]) => [name, digest(value)]);
  return { settings: digest(JSON.stringify(plain.sort())), secrets: Object.fromEntries(secrets) };
}

/** A process has those of its roles only. Of a management key that Gatehouse generated, each data directory has another. */
function secretsIn(settings: Settings): [name: string, value: string][] {
  const { managementKey, managementKeys, hasOwnManagementKey, ...others } = settings;
  const compared = hasOwnManagementKey ? others : { ...others, managementKey };
  return [
    ...[...valuesIn(compared as Settings)].filter(
      ([name]) => SECRET.test(name) && readAtStart([name]).length === 0,
    ),
    ...managementKeys.map(({ name, key }): [string, string] => [`management.keys.${name}`, key]),
  ];
}

/** Whether processes have different settings, or see different contents of a secret. */
export function areDifferent(one: SettingsDigest, other: SettingsDigest): boolean {
  return one.settings !== other.settings || differingSecrets([one, other]).length > 0;
}

/** The names of secrets of which the processes see different contents. */
export function differingSecrets(digests: readonly SettingsDigest[]): string[] {
  const seen = new Map<string, Set<string>>();
  for (const { secrets } of digests)
    for (const [name, digest] of Object.entries(secrets))
      seen.set(name, (seen.get(name) ?? new Set()).add(digest));
  return [...seen].flatMap(([name, values]) => (values.size > 1 ? [name] : [])).sort();
}
