// Addresses: loopback, where each host listens, and where the store is.
import type { RefinementCtx } from 'zod';
import type { Role, SettingsFile } from './schema.ts';
import type { Path } from './source.ts';
import type { Address } from './value-types.ts';

/** The token endpoint, below `authUrl`. Its address is also an audience of assertions. */
export const TOKEN_PATH = '/oauth/token';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/;

/** Accepts hosts of URLs and of listen addresses (RFC 8252 section 7.3, RFC 6761 section 6.3). */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

export function isLoopbackUrl(url: string): boolean {
  return isLoopback(new URL(url).hostname);
}

/** `developmentIdp` is set with the embedded identity provider, and `metrics` if it is configured. */
export type Listeners = {
  auth: Address;
  resource: Address;
  management: Address;
  developmentIdp: Address | undefined;
  metrics: Address | undefined;
};

/** A host with its public and listen addresses and their settings. Without a role, it runs in every process. */
export type Host = {
  name: keyof Listeners;
  role: Role | undefined;
  url: string;
  urlPath: Path;
  address: Address;
  addressPath: Path;
};

export function resolveListeners(file: SettingsFile): Listeners {
  const { listen, developmentIdp } = file;
  return {
    auth: listener(file.authUrl, listen.auth),
    resource: listener(file.resourceUrl, listen.resource),
    management: listener(file.managementUrl, listen.management),
    developmentIdp: developmentIdp && listener(developmentIdp.url, listen.developmentIdp),
    metrics: listen.metrics && bound(listen.metrics),
  };
}

/**
 * Listens on loopback for a loopback address, otherwise on every interface. Replaces `localhost` by 127.0.0.1, because the
 * name can resolve to two addresses.
 */
function listener(url: string, set: Address | undefined): Address {
  if (set) return bound(set);
  const { protocol, hostname, port } = new URL(url);
  const host = hostname === 'localhost' ? '127.0.0.1' : hostname.replace(/^\[|\]$/g, '');
  return {
    host: isLoopback(host) ? host : '0.0.0.0',
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
  };
}

function bound(set: Address): Address {
  return set.host === 'localhost' ? { ...set, host: '127.0.0.1' } : set;
}

/** Returns the hosts with valid settings, regardless of the roles of this process. */
export function hosts(file: Partial<SettingsFile>): Host[] {
  const { listen } = file;
  if (!listen) return [];
  const host = (name: Host['name'], role: Role, url: string | undefined, urlPath: Path): Host[] => {
    if (!url) return [];
    const addressPath = listen[name] ? ['listen', name] : urlPath;
    return [{ name, role, url, urlPath, address: listener(url, listen[name]), addressPath }];
  };
  return [
    ...host('auth', 'authorization-server', file.authUrl, ['authUrl']),
    ...host('resource', 'resource-server', file.resourceUrl, ['resourceUrl']),
    ...host('management', 'management', file.managementUrl, ['managementUrl']),
    ...host('developmentIdp', 'authorization-server', file.developmentIdp?.url, [
      'developmentIdp',
      'url',
    ]),
    ...metricsHost(listen.metrics),
  ];
}

/** Has no public address, because collectors use its listen address. */
function metricsHost(set: Address | undefined): Host[] {
  if (!set) return [];
  const path = ['listen', 'metrics'];
  const place = { address: bound(set), addressPath: path };
  return [{ name: 'metrics', role: undefined, url: 'metrics', urlPath: path, ...place }];
}

export type HostPort = { host: string; port: number };

export type StoreAddress =
  | { kind: 'sqlite'; file: string }
  | { kind: 'redis'; url: string }
  | ({
      kind: 'sentinel';
      nodes: HostPort[];
      name: string;
      /** Of the Sentinels. */
      sentinelUsername?: string;
      sentinelPassword?: string;
    } & Credentials)
  | ({ kind: 'cluster'; nodes: HostPort[] } & Credentials);

type Credentials = { username?: string; password?: string; tls: boolean };

const EXPECTED =
  'sqlite:<file>, redis://host:port, rediss://host:port, redis+sentinel://host:port,host:port/<name> or redis+cluster://host:port,host:port; after `?`, redis:// and rediss:// take only family, and Sentinels only sentinelUsername and sentinelPassword';
const LIST =
  /^(rediss?)\+(sentinel|cluster):\/\/(?:([^:@/]*):([^@/]*)@)?([^/@?]+?)(?:\/([\w.-]+))?(?:\?(.*))?$/;

/** What may follow the address as `?name=value`. The client library would take any other as an option of its own. */
const PARAMETERS = {
  redis: ['family'],
  sentinel: ['sentinelUsername', 'sentinelPassword'],
} as const;

export function parseStoreAddress(text: string, ctx: RefinementCtx): StoreAddress {
  const parsed = readAddress(text);
  if (parsed) return parsed;
  ctx.addIssue({ code: 'custom', message: EXPECTED });
  return { kind: 'sqlite', file: '' };
}

function readAddress(text: string): StoreAddress | undefined {
  if (text.startsWith('sqlite:')) {
    const file = text.slice('sqlite:'.length);
    return file ? { kind: 'sqlite', file } : undefined;
  }
  if (/^rediss?:\/\//.test(text)) {
    const url = URL.parse(text);
    const isSound =
      url?.hostname &&
      [url.username, url.password].every(isDecodable) &&
      /^\/?\d*$/.test(url.pathname) &&
      parametersIn(url.search.slice(1), PARAMETERS.redis);
    return isSound ? { kind: 'redis', url: text } : undefined;
  }
  const [, scheme, kind, username, password, list, name, query] = LIST.exec(text) ?? [];
  const nodes = list?.split(',').map(hostPort);
  if (!nodes?.every((node) => node !== undefined)) return undefined;
  if (![username, password].every(isDecodable)) return undefined;
  const credentials = {
    tls: scheme === 'rediss',
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  };
  if (kind === 'cluster')
    return name || query !== undefined ? undefined : { kind, nodes, ...credentials };
  const parameters = parametersIn(query, PARAMETERS.sentinel);
  return name && parameters
    ? { kind: 'sentinel', nodes, name, ...credentials, ...parameters }
    : undefined;
}

/** Undefined if the text has another parameter, or the same one twice. In a password, `+` is no space. */
function parametersIn(text = '', names: readonly string[]): Record<string, string> | undefined {
  const found: Record<string, string> = {};
  for (const part of text === '' ? [] : text.split('&')) {
    const [, name = '', value = ''] = /^(\w+)=(.+)$/.exec(part) ?? [];
    if (!names.includes(name) || name in found || !isDecodable(value)) return undefined;
    found[name] = decodeURIComponent(value);
  }
  return found;
}

function isDecodable(text = ''): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function hostPort(text: string): HostPort | undefined {
  const [, host, port] = /^(\[[\da-fA-F:.]+\]|[^:\s]+):(\d{1,5})$/.exec(text) ?? [];
  if (!host || Number(port) > 65_535) return undefined;
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port) };
}
