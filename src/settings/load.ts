// Loads the settings: the file, the environment over it, every check; and reports all mistakes at once.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import {
  checkClientIds,
  checkMetadataDocuments,
  checkProviders,
  checkRedirects,
  checkStore,
  checkTrustedIssuers,
  checkUpstream,
} from './consistency.ts';
import { pathName } from './document.ts';
import { checkProviderIds, resolveRules, checkRules } from './entitlements.ts';
import { checkVariableNames, type Environment } from './environment.ts';
import { errorCode, PROJECT_ROOT } from './file.ts';
import { type IdentityProvider, providersIn, readIdentityProviders } from './identity-provider.ts';
import { resolveLimits } from './limits.ts';
import { checkListeners, resolveListeners } from './listeners.ts';
import { checkManagementKey } from './management-key.ts';
import { type SettingsIssue, SettingsError } from './issues.ts';
import { parseSettings } from './parse.ts';
import { checkDistinctSecrets } from './one-secret.ts';
import { type NamedSecrets, checkPlaceholders, secretsInFile } from './placeholder.ts';
import { inProduction, checkProduction, productionReason } from './production.ts';
import { keepSecret, readSecret, type Reading } from './secrets.ts';
import type { SettingsFile } from './schema.ts';
import type { Settings } from './settings.ts';
import { issueAt, readSource, type Source } from './source.ts';
import { readTraces } from './traces.ts';

const DRAIN_IN_PRODUCTION = 5;

/**
 * Throws SettingsError. Writes nothing before every setting is right; then makes the secrets that were not given and may be
 * made: the management key and, in development, the root secret. With `makesSecrets: false` it makes none, and wants those that are needed
 * to be there.
 */
export function loadSettings(
  environment: Environment = process.env,
  { makesSecrets = true } = {},
): Settings {
  const source = readSource(environment);
  const { file, sound, issues } = parseSettings(source);
  const reason = productionReason(source, sound, environment);
  const identityProviders = readIdentityProviders(source, sound);
  const secret = requireSecret(readSecret(environment, 'GATEHOUSE_SECRET'), reason);
  const previousSecret = readSecret(environment, 'GATEHOUSE_PREVIOUS_SECRET');
  const managementKey = readSecret(environment, 'GATEHOUSE_MANAGEMENT_KEY');
  const traces = readTraces(environment, sound, reason);
  const secrets = [
    ['GATEHOUSE_SECRET', secret.value],
    ['GATEHOUSE_MANAGEMENT_KEY', managementKey.value],
    ...secretsInFile(source, sound),
    ...secretsFromFiles(sound, identityProviders.value),
  ] as const;
  const all = [
    ...checkVariableNames(environment),
    ...issues,
    ...checkListeners(source, sound),
    ...checkStore(source, sound),
    ...checkRedirects(source, sound),
    ...checkClientIds(source, sound),
    ...checkTrustedIssuers(source, sound),
    ...checkMetadataDocuments(source, sound),
    ...checkUpstream(source, sound),
    ...checkProviders(source, sound),
    ...(reason ? checkProduction(source, sound, reason) : []),
    ...identityProviders.issues,
    ...checkProviderIds(source, sound),
    ...checkRules(source, sound),
    ...secret.issues,
    ...previousSecret.issues,
    ...managementKey.issues,
    ...traces.issues,
    ...checkManagementKey(managementKey.value, 'GATEHOUSE_MANAGEMENT_KEY'),
    ...(reason ? checkPlaceholders(secrets, reason) : []),
    ...(reason ? checkDistinctSecrets(secrets, previousSecret.value, reason) : []),
  ];
  if (all.length > 0 || !file || !identityProviders.value) throw new SettingsError(all);
  const dataDir = resolve(PROJECT_ROOT, file.dataDir);
  const { store } = file;
  const mayRead = (name: string) => makesSecrets || existsSync(join(dataDir, name));
  const kept = (name: string) => keptSecret(source, dataDir, name);
  if (!secret.value && !mayRead('secret')) throw new SettingsError([notMadeYet(dataDir)]);
  return {
    ...file,
    production: reason !== undefined,
    environmentName: reason ? 'production' : 'development',
    dataDir,
    ...(file.theme === undefined ? {} : { theme: resolve(PROJECT_ROOT, file.theme) }),
    drain: file.drain ?? (reason ? DRAIN_IN_PRODUCTION : 0),
    store: store.kind === 'sqlite' ? { ...store, file: resolve(dataDir, store.file) } : store,
    listen: resolveListeners(file),
    identityProviders: identityProviders.value,
    ...resolveRules(file, identityProviders.value),
    limits: resolveLimits(file.limits, reason !== undefined),
    traces: traces.value,
    secret: secret.value ?? kept('secret'),
    previousSecret: previousSecret.value,
    managementKey:
      managementKey.value ??
      (file.roles.includes('management') && mayRead('management.key')
        ? kept('management.key')
        : undefined),
  };
}

/** By the setting that names the file. */
function secretsFromFiles(
  file: Partial<SettingsFile>,
  read: readonly IdentityProvider[] = [],
): NamedSecrets {
  return providersIn(file).flatMap(([path, { clientSecretFile, clientId }], n) =>
    clientSecretFile
      ? [[pathName([...path, 'clientSecretFile']), read[n]?.clientSecret, clientId] as const]
      : [],
  );
}

/** Production, for `reason`, makes no root secret: several processes need the same one, and it must outlive the data directory. */
function requireSecret(secret: Reading, reason: string | undefined): Reading {
  if (!reason || secret.value || secret.issues.length > 0) return secret;
  const expected = `a secret of at least 32 characters, here or in a file named by GATEHOUSE_SECRET_FILE, ${inProduction(reason)}`;
  return { issues: [{ setting: 'GATEHOUSE_SECRET', given: 'nothing', expected }] };
}

function notMadeYet(dataDir: string): SettingsIssue {
  const expected = `the root secret; Gatehouse makes ${join(dataDir, 'secret')} when it first starts`;
  return { setting: 'GATEHOUSE_SECRET', given: 'nothing', expected };
}

function keptSecret(source: Source, dataDir: string, name: string): string {
  try {
    return keepSecret(dataDir, name);
  } catch (cause) {
    if (cause instanceof SettingsError) throw cause;
    const expected = `a directory this process can write to (${errorCode(cause)})`;
    throw new SettingsError([issueAt(source, ['dataDir'], expected, JSON.stringify(dataDir))]);
  }
}
