// Environment variables, which take precedence over the settings file.
import { resolve } from 'node:path';
import type { Path } from './source.ts';
import type { SettingsIssue } from './issues.ts';
import { nearestName } from './issues.ts';
import { ROLES } from './schema.ts';

/** An empty variable counts as not set. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings on the command line, which take precedence over variables. Relative paths are resolved from the working directory. */
export type CommandLineSettings = {
  config?: string;
  dataDir?: string;
  upstream?: string;
  /** A number, or `auto`. */
  workers?: string;
};

/** A variable, or an option of the command line, that is set. `value` is `text` as it would be at `path` in the file. */
export type Variable = { name: string; path: Path; text: string; value: unknown };

/** The setting that each variable overrides. */
export const VARIABLE_PATHS: Readonly<Record<string, Path>> = {
  GATEHOUSE_AUTH_URL: ['authUrl'],
  GATEHOUSE_RESOURCE_URL: ['resourceUrl'],
  GATEHOUSE_MANAGEMENT_URL: ['managementUrl'],
  GATEHOUSE_DEVELOPMENT_IDP_URL: ['developmentIdp', 'url'],
  GATEHOUSE_AUTH_LISTEN: ['listen', 'auth'],
  GATEHOUSE_RESOURCE_LISTEN: ['listen', 'resource'],
  GATEHOUSE_MANAGEMENT_LISTEN: ['listen', 'management'],
  GATEHOUSE_DEVELOPMENT_IDP_LISTEN: ['listen', 'developmentIdp'],
  GATEHOUSE_METRICS_LISTEN: ['listen', 'metrics'],
  GATEHOUSE_STORE: ['store'],
  GATEHOUSE_DATA_DIR: ['dataDir'],
  GATEHOUSE_ROLES: ['roles'],
  GATEHOUSE_DEFAULT_CONNECTOR: ['authorization', 'defaultConnector'],
  GATEHOUSE_LOG_LEVEL: ['logLevel'],
  GATEHOUSE_TRACES: ['observability', 'traces'],
  GATEHOUSE_IDENTITY_PROVIDER_SECRET: ['identityProvider', 'clientSecret'],
  GATEHOUSE_IDENTITY_PROVIDER_SECRET_FILE: ['identityProvider', 'clientSecretFile'],
};

/** Variables without a setting in the file, with their descriptions for the settings reference. */
export const OTHER_VARIABLES: Readonly<Record<string, string>> = {
  GATEHOUSE_CONFIG:
    'Settings file. Default: `gatehouse.yaml` in the current folder if it exists, otherwise `config/development.yaml`.',
  GATEHOUSE_SECRET:
    'Root secret of at least 32 characters, from which all keys are derived; the same in every process. Required in production, generated in development.',
  GATEHOUSE_SECRET_FILE: 'File that contains the root secret.',
  GATEHOUSE_PREVIOUS_SECRET: 'Previous root secret, [while it is replaced](README.md#secrets).',
  GATEHOUSE_PREVIOUS_SECRET_FILE: 'File that contains the previous root secret.',
  GATEHOUSE_MANAGEMENT_KEY:
    'Bearer key of the management API, at least 32 characters; the same in every process with the management role. Default: generated in `dataDir`.',
  GATEHOUSE_MANAGEMENT_KEY_FILE: 'File that contains the management key.',
  HTTPS_PROXY:
    'Proxy for requests to https addresses ([forward proxy](README.md#forward-proxy-and-private-authorities)). Also in lower case. Default: `HTTP_PROXY`.',
  HTTP_PROXY: 'Proxy for requests to http addresses.',
  NO_PROXY:
    'Hosts, domains or ranges of addresses that are reached without a proxy, separated by commas.',
  NODE_EXTRA_CA_CERTS:
    'File with certificates of private authorities (PEM), which are trusted beside the public ones.',
  GATEHOUSE_STORE_FILE: 'File that contains the address of the store, for one with a password.',
};

const UPSTREAM_URL: Path = ['resourceServer', 'upstream', 'url'];

/** Without variables that an option replaces. */
export function variablesIn(
  environment: Environment,
  { dataDir, upstream, workers }: CommandLineSettings = {},
): Variable[] {
  const options: Variable[] = [
    ...(dataDir === undefined
      ? []
      : [{ name: '--data-dir', path: ['dataDir'], text: dataDir, value: resolve(dataDir) }]),
    ...(upstream === undefined
      ? []
      : [{ name: '--upstream', path: UPSTREAM_URL, text: upstream, value: upstream }]),
    ...(workers === undefined
      ? []
      : [{ name: '--workers', path: ['workers'], text: workers, value: workersValue(workers) }]),
  ];
  const variables = Object.entries(VARIABLE_PATHS).flatMap(([name, path]) => {
    const text = environment[name];
    const isReplaced = options.some((other) => other.path.join('.') === path.join('.'));
    return text && !isReplaced ? [{ name, path, text, value: fileValue(name, text) }] : [];
  });
  return [...options, ...variables];
}

function workersValue(text: string): unknown {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** Relative paths in variables are resolved from the working directory. */
function fileValue(name: string, text: string): unknown {
  if (name === 'GATEHOUSE_ROLES') {
    return text === 'all' ? [...ROLES] : text.split(',').map((role) => role.trim());
  }
  if (name === 'GATEHOUSE_TRACES' && /^(true|false)$/.test(text)) return text === 'true';
  return /_(DIR|FILE)$/.test(name) ? resolve(text) : text;
}

/** Reports only near misses, because orchestrators set variables such as GATEHOUSE_PORT. */
export function checkVariableNames(environment: Environment): SettingsIssue[] {
  return unknownNames(environment).flatMap((name) => {
    const meant = nearestName(name, KNOWN_NAMES);
    return meant ? [unknownVariable(name, meant)] : [];
  });
}

/** Reports every unknown variable except those that Kubernetes sets for a service of that name. */
export function unknownVariables(environment: Environment): SettingsIssue[] {
  return unknownNames(environment)
    .filter((name) => !OF_SERVICES.test(`${name}=${environment[name]}`))
    .map((name) => unknownVariable(name, nearestName(name, KNOWN_NAMES)));
}

const KNOWN_NAMES = [...Object.keys(VARIABLE_PATHS), ...Object.keys(OTHER_VARIABLES)];

/** https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables */
const OF_SERVICES = /^\w+_(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT_\d+_\w+=|PORT=\w+:\/\/)/;

function unknownNames(environment: Environment): string[] {
  return Object.keys(environment).filter(
    (name) => name.startsWith('GATEHOUSE_') && environment[name] && !KNOWN_NAMES.includes(name),
  );
}

function unknownVariable(name: string, meant: string | undefined): SettingsIssue {
  const hint = meant ? ` (did you mean ${meant}?)` : '';
  return { setting: name, given: 'an unknown variable', expected: `a known variable${hint}` };
}
