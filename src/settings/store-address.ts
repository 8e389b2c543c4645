// Where the store is: sqlite:<file>, redis://, rediss://, redis+sentinel:// or redis+cluster:// read into parts.
import type { RefinementCtx } from 'zod';

export type HostPort = { host: string; port: number };

export type StoreAddress =
  | { kind: 'sqlite'; file: string }
  | { kind: 'redis'; url: string }
  | ({ kind: 'sentinel'; nodes: HostPort[]; name: string } & Credentials)
  | ({ kind: 'cluster'; nodes: HostPort[] } & Credentials);

type Credentials = { username?: string; password?: string; tls: boolean };

const EXPECTED =
  'sqlite:<file>, redis://host:port, rediss://host:port, redis+sentinel://host:port,host:port/<name> or redis+cluster://host:port,host:port';
const LIST =
  /^(rediss?)\+(sentinel|cluster):\/\/(?:([^:@/]*):([^@/]*)@)?([^/@]+?)(?:\/([\w.-]+))?$/;

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
    const isSound = url?.hostname && [url.username, url.password].every(isDecodable);
    return isSound ? { kind: 'redis', url: text } : undefined;
  }
  const [, scheme, kind, username, password, list, name] = LIST.exec(text) ?? [];
  const nodes = list?.split(',').map(hostPort);
  if (!nodes?.every((node) => node !== undefined)) return undefined;
  if (![username, password].every(isDecodable)) return undefined;
  const credentials = {
    tls: scheme === 'rediss',
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  };
  if (kind === 'cluster') return name ? undefined : { kind, nodes, ...credentials };
  return name ? { kind: 'sentinel', nodes, name, ...credentials } : undefined;
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
