// Loads the settings from file and environment, validates them, and reports all issues at once.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { resolveListeners } from './addresses.ts';
import {
  type NamedSecrets,
  checkConsistency,
  checkDistinctKeys,
  checkDistinctSecrets,
  checkPlaceholders,
  checkProduction,
  inProduction,
  productionReason,
  secretsIn,
} from './checks.ts';
import { readDelivery } from './audit-delivery.ts';
import { withIssuerFiles } from './trusted-issuers.ts';
import { checkExchanges, withExchanges } from './credentials.ts';
import { checkProviderIds, checkRules, resolveRules } from './entitlements.ts';
import {
  type CommandLineSettings,
  type Environment,
  checkVariableNames,
  unknownVariables,
} from './environment.ts';
import { checkRecheckScopes, readIdentityProviders } from './identity-provider.ts';
import { SettingsError, type SettingsIssue, characters, nearestName } from './issues.ts';
import { resolveLimits } from './limits.ts';
import { namedKeys, readManagementKeys } from './management-keys.ts';
import { type SettingsFile, settingsSchema } from './schema.ts';
import { readSource, type SettingsTree, sourceOf } from './read-source.ts';
import type { Secrets } from './secret-file.ts';
import { type Reading, checkManagementKey, keepSecret, readSecret } from './secrets.ts';
import type { Settings } from './settings.ts';
import {
  type Path,
  type Source,
  errorCode,
  isMapping,
  issueAt,
  pathName,
  resolveDataDir,
  valueAt,
  withValue,
} from './source.ts';
import { readForwardProxy } from './forward-proxy.ts';
import { readTraces } from './traces.ts';
import { readUpstreams } from './upstreams.ts';

const DRAIN_IN_PRODUCTION = 5;

type LoadOptions = {
  makesSecrets?: boolean;
  /** Options of the command line. */
  options?: CommandLineSettings | undefined;
};

/**
 * Throws SettingsError. If all settings are valid, generates the missing secrets in the data directory: the management key and, in
 * development, the root secret. With `makesSecrets: false`, requires existing secrets instead.
 */
export function loadSettings(
  environment: Environment = process.env,
  { makesSecrets = true, options = {} }: LoadOptions = {},
): Settings {
  return resolveSettings(readSource(environment, options), makesSecrets);
}

/** What is known of the settings before secrets are generated. */
export type ValidSettings = Omit<Settings, 'secret' | 'managementKey' | 'hasOwnManagementKey'>;

/**
 * Throws SettingsError if Gatehouse would not start, or if it does not know a variable with its prefix. Opens no connection, and writes nothing:
 * a secret that the first start generates need not exist.
 */
export function checkSettings(
  environment: Environment = process.env,
  options: CommandLineSettings = {},
): ValidSettings {
  return validSettings(readSource(environment, options), unknownVariables(environment)).settings;
}

/** Variables of this environment that hold secrets. A process cannot read them again, unlike files. The root secret is none of them. */
export function secretVariablesIn(
  environment: Environment = process.env,
  options: CommandLineSettings = {},
): string[] {
  const given = (name: string) => (environment[name] ? [name] : []);
  const named = variablesNamedIn(readSource(environment, options).document);
  return [...RELOADABLE_SECRETS.flatMap(given), ...named.flatMap(given)].sort();
}

const RELOADABLE_SECRETS = [
  'GATEHOUSE_MANAGEMENT_KEY',
  'GATEHOUSE_IDENTITY_PROVIDER_SECRET',
  'OTEL_EXPORTER_OTLP_HEADERS',
];

/** The values of all members such as `env` and `keyEnv`. */
function variablesNamedIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(variablesNamedIn);
  if (!isMapping(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const names = /^env$|Env$/.test(key) ? [member].flat() : [];
    return names.length > 0 && names.every((name) => typeof name === 'string')
      ? names
      : variablesNamedIn(member);
  });
}

type Validated = {
  settings: ValidSettings;
  /** The secrets that are set. */
  given: { secret: string | undefined; managementKey: string | undefined };
};

/** `others` are issues that the caller found. */
function validSettings(source: Source, others: readonly SettingsIssue[]): Validated {
  const { environment } = source;
  const { file, sound, issues } = parseSettings(source);
  const reason = productionReason(source, sound, environment);
  const identityProviders = readIdentityProviders(source, sound);
  const upstreams = readUpstreams(source, sound, environment);
  const delivery = readDelivery(source, sound);
  const secret = requireSecret(readSecret(environment, 'GATEHOUSE_SECRET'), reason);
  const previousSecret = readSecret(environment, 'GATEHOUSE_PREVIOUS_SECRET');
  const managementKey = readSecret(environment, 'GATEHOUSE_MANAGEMENT_KEY');
  const managementKeys = readManagementKeys(source, sound);
  const keys = [
    ['GATEHOUSE_MANAGEMENT_KEY', managementKey.value],
    ...namedKeys(managementKeys.value),
  ] as const;
  const traces = readTraces(environment, sound, reason);
  const forwardProxy = readForwardProxy(environment);
  const secrets = [
    ['GATEHOUSE_SECRET', secret.value],
    ...keys,
    ...secretsIn(source, sound, identityProviders.value),
  ] as const;
  const all = [
    ...others,
    ...source.issues,
    ...issues,
    ...checkConsistency(source, sound),
    ...(reason ? checkProduction(source, sound, reason) : []),
    ...identityProviders.issues,
    ...upstreams.issues,
    ...(identityProviders.value
      ? [
          ...checkExchanges(identityProviders.value, upstreams.value ?? []),
          ...checkRecheckScopes(
            source,
            sound,
            withExchanges(identityProviders.value, upstreams.value ?? []),
          ),
        ]
      : []),
    ...delivery.issues,
    ...checkProviderIds(source, sound),
    ...checkRules(source, sound),
    ...secret.issues,
    ...previousSecret.issues,
    ...managementKey.issues,
    ...managementKeys.issues,
    ...traces.issues,
    ...forwardProxy.issues,
    ...checkManagementKey(managementKey.value, 'GATEHOUSE_MANAGEMENT_KEY'),
    ...(reason ? checkPlaceholders(secrets, reason) : []),
    ...(reason
      ? checkDistinctSecrets(secrets, previousSecret.value, reason)
      : checkDistinctKeys(keys)),
  ];
  if (all.length > 0 || !file || !identityProviders.value) throw new SettingsError(all);
  const dataDir = resolveDataDir(source, file.dataDir);
  const { store } = file;
  const { upstream: _upstream, upstreams: _upstreams, ...resourceServer } = file.resourceServer;
  const settings = {
    ...file,
    production: reason !== undefined,
    environmentName: reason ? ('production' as const) : ('development' as const),
    dataDir,
    ...(file.theme === undefined ? {} : { theme: resolve(source.folder, file.theme) }),
    ...(file.secretFile === undefined
      ? {}
      : { secretFile: resolve(source.folder, file.secretFile) }),
    authorization: withIssuerFiles(source, file.authorization),
    ...clientLifetime(file.lifetimes),
    drain: file.drain ?? (reason ? DRAIN_IN_PRODUCTION : 0),
    store: store.kind === 'sqlite' ? { ...store, file: resolve(dataDir, store.file) } : store,
    listen: resolveListeners(file),
    identityProviders: withExchanges(identityProviders.value, upstreams.value ?? []),
    ...resolveRules(file, identityProviders.value),
    resourceServer,
    upstreams: upstreams.value ?? [],
    audit: { ...file.audit, delivery: delivery.value ?? [] },
    limits: resolveLimits(file.limits, reason !== undefined),
    traces: traces.value,
    forwardProxy: forwardProxy.value,
    previousSecret: previousSecret.value,
    managementKeys: managementKeys.value ?? [],
  };
  return { settings, given: { secret: secret.value, managementKey: managementKey.value } };
}

function resolveSettings(source: Source, makesSecrets: boolean): Settings {
  const { settings, given } = validSettings(source, checkVariableNames(source.environment));
  const { dataDir, managementKeys } = settings;
  const mayRead = (name: string) => makesSecrets || existsSync(join(dataDir, name));
  const kept = (name: string) => keptSecret(source, dataDir, name);
  if (!given.secret && !mayRead('secret')) throw new SettingsError([notMadeYet(dataDir)]);
  const managementKey =
    given.managementKey ??
    (settings.roles.includes('management') && mayRead('management.key')
      ? kept('management.key')
      : undefined);
  requireDistinctKeys([
    [join(dataDir, 'management.key'), managementKey],
    ...namedKeys(managementKeys),
  ]);
  return {
    ...settings,
    secret: given.secret ?? kept('secret'),
    managementKey,
    hasOwnManagementKey: given.managementKey === undefined,
  };
}

/** A key of `management.keys` may name the file of the generated one. */
function requireDistinctKeys(keys: NamedSecrets): void {
  const issues = checkDistinctKeys(keys);
  if (issues.length > 0) throw new SettingsError(issues);
}

/** Production generates no root secret: all processes need the same one, and it must outlive the data directory. */
function requireSecret(secret: Reading, reason: string | undefined): Reading {
  if (!reason || secret.value || secret.issues.length > 0) return secret;
  const expected = `a secret of at least 32 characters, here or in a file named by GATEHOUSE_SECRET_FILE, ${inProduction(reason)}`;
  return { issues: [{ setting: 'GATEHOUSE_SECRET', given: 'nothing', expected }] };
}

function notMadeYet(dataDir: string): SettingsIssue {
  const expected = `the root secret; Gatehouse generates ${join(dataDir, 'secret')} at its first start`;
  return { setting: 'GATEHOUSE_SECRET', given: 'nothing', expected };
}

function keptSecret(source: Source, dataDir: string, name: string): string {
  try {
    return keepSecret(dataDir, name);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    const expected = `a directory that this process can write to (${errorCode(cause)})`;
    throw new SettingsError([issueAt(source, ['dataDir'], expected, JSON.stringify(dataDir))]);
  }
}

/** Throws SettingsError if Gatehouse would not start with a file and its secrets. Of other variables, only NODE_ENV and `names` count. */
export function requireValidSettings(
  { tree, folder }: SettingsTree,
  secrets: Secrets,
  environment: Environment = process.env,
  names: readonly string[] = [],
): void {
  const variables = ['NODE_ENV', ...names].map((name) => [name, environment[name]]);
  // The secret file does not exist yet, so its content takes the way of the environment.
  const document = withValue(tree, ['secretFile'], undefined);
  resolveSettings(
    sourceOf({ tree: document, folder }, { ...Object.fromEntries(variables), ...secrets }),
    false,
  );
}

/** `sound` contains the valid top-level settings, so that checks across settings can run despite other issues. */
type Parsed = { file?: SettingsFile; sound: Partial<SettingsFile>; issues: SettingsIssue[] };

function parseSettings(source: Source): Parsed {
  // The schema is used once: generating code for it would take longer than parsing.
  const result = settingsSchema.safeParse(source.document, { error: expected, jitless: true });
  if (result.success) return { file: result.data, sound: result.data, issues: [] };
  const { issues: found } = result.error;
  const issues = found.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => unknownKey(issue.path, key))
      : [issueAt(source, issue.path, issue.message)],
  );
  return { sound: soundPart(source, new Set(found.map(({ path }) => path[0]))), issues };
}

function soundPart(
  source: Source,
  broken: ReadonlySet<PropertyKey | undefined>,
): Partial<SettingsFile> {
  const isSound = ([key]: [string, unknown]) => !broken.has(key);
  const document = isMapping(source.document) ? Object.entries(source.document) : [];
  const parsed = settingsSchema
    .partial()
    .strip()
    .parse(Object.fromEntries(document.filter(isSound)));
  // An invalid setting must not look like an omitted one.
  return Object.fromEntries(Object.entries(parsed).filter(isSound));
}

/** Hides the value, because a misspelt `clientSecret` is still a secret. */
function unknownKey(path: Path, key: string): SettingsIssue {
  const known = keysAt(path);
  const meant = nearestName(key, known);
  const expected = meant
    ? `a known setting (did you mean ${meant}?)`
    : `one of ${known.join(', ')}`;
  return { setting: pathName([...path, key]), given: 'an unknown setting', expected };
}

function keysAt(path: Path): string[] {
  const inJson = path.flatMap((key) => (typeof key === 'number' ? ['items'] : ['properties', key]));
  const schema = z.toJSONSchema(settingsSchema, { io: 'input', unrepresentable: 'any' });
  return Object.keys(valueAt(schema, [...inJson, 'properties']) ?? {});
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  array: 'a list',
  object: 'a group of settings',
  record: 'a group of settings',
};

/** Returns the expectation for issues that have no message in the schema. */
function expected(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'invalid_type') return KINDS[issue.expected] ?? `a ${issue.expected}`;
  if (issue.code === 'invalid_value')
    return issue.values
      .map(String)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or ');
  if (issue.code === 'too_small') return `at least ${size(issue.origin, Number(issue.minimum))}`;
  if (issue.code === 'too_big') return `at most ${size(issue.origin, Number(issue.maximum))}`;
  return undefined;
}

function size(origin: string, count: number): string {
  return origin === 'array' ? `${count} in the list` : characters(count);
}

/** An app whose registration ends before its refresh token repeats a client id that is no longer known. */
function clientLifetime(
  lifetimes: SettingsFile['lifetimes'],
): Pick<Settings, 'lifetimes' | 'raisedUsedClient'> {
  const { usedClient, refreshTokenIdle } = lifetimes;
  const isShort = usedClient < refreshTokenIdle;
  return {
    lifetimes: isShort ? { ...lifetimes, usedClient: refreshTokenIdle } : lifetimes,
    raisedUsedClient: isShort ? usedClient : undefined,
  };
}
