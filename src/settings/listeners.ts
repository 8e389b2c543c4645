// Where each host listens: the port of its public address, unless it is set apart.
import type { Path } from './document.ts';
import { isLoopback } from './loopback.ts';
import type { SettingsIssue } from './issues.ts';
import type { Role, SettingsFile } from './schema.ts';
import type { Address } from './value-types.ts';
import { issueAt, settingName, type Source } from './source.ts';

/** `developmentIdp` is there when the embedded identity provider is, `metrics` when it is set. */
export type Listeners = {
  auth: Address;
  resource: Address;
  management: Address;
  developmentIdp: Address | undefined;
  metrics: Address | undefined;
};

/** A host with its public address, where it listens, and the settings that say so; in every process unless it has a role. */
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
 * An address of this computer is listened on at this computer only, any other one on every network interface.
 * `localhost` is 127.0.0.1: a name with two addresses would be bound to one of them, and not always the same.
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

/** The hosts whose settings are sound, whatever the roles of this process. */
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

/** It has no public address: what reads metrics comes to where it listens. */
function metricsHost(set: Address | undefined): Host[] {
  if (!set) return [];
  const path = ['listen', 'metrics'];
  const place = { address: bound(set), addressPath: path };
  return [{ name: 'metrics', role: undefined, url: 'metrics', urlPath: path, ...place }];
}

/** Only the authorization server and the resource server may be one origin; and no two listeners of a process one socket. */
export function checkListeners(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const all = hosts(file);
  return all.flatMap((second, index) =>
    all.slice(0, index).flatMap((first) => {
      const issue = conflict(source, file.roles ?? [], first, second);
      return issue ? [issue] : [];
    }),
  );
}

function conflict(
  source: Source,
  roles: Role[],
  first: Host,
  second: Host,
): SettingsIssue | undefined {
  const isOneOrigin = first.url === second.url;
  if (isOneOrigin && !(first.name === 'auth' && second.name === 'resource')) {
    const expected = `another address than ${settingName(source, first.urlPath)}`;
    return issueAt(source, second.urlPath, expected);
  }
  const areBothHere = [first, second].every(({ role }) => !role || roles.includes(role));
  if (!areBothHere || !isOneSocket(first.address, second.address)) return undefined;
  if (isOneOrigin && first.address.host === second.address.host) return undefined;
  const { host, port } = second.address;
  const expected = `a host:port of its own (listen.${first.name} is ${first.address.host}:${first.address.port}); set listen.${second.name}`;
  return issueAt(source, second.addressPath, expected, `${host}:${port} to listen on`);
}

/** Port 0 is a free port of the system's choice. */
function isOneSocket(first: Address, second: Address): boolean {
  if (first.port !== second.port || first.port === 0) return false;
  return (
    first.host === second.host || [first, second].some(({ host }) => /^(0\.0\.0\.0|::)$/.test(host))
  );
}
