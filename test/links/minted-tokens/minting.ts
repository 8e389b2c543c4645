// Minted tokens over the management API.
import { z } from 'zod';
import type { Level } from '../../../src/permission-levels.ts';
import type { System } from '../../support/system.ts';

const minted = z.strictObject({
  id: z.string(),
  name: z.string(),
  level: z.string(),
  upstream: z.string().optional(),
  tools: z.array(z.string()).optional(),
  token: z.string(),
  opened: z.looseObject({ tools: z.array(z.string()) }).optional(),
  expiresAt: z.iso.datetime(),
  calls: z.string().optional(),
});

const listed = z.strictObject({
  id: z.string(),
  name: z.string(),
  level: z.string(),
  upstream: z.string().optional(),
  tools: z.array(z.string()).optional(),
  createdAt: z.iso.datetime(),
  by: z.string().optional(),
  expiresAt: z.iso.datetime(),
  lastFour: z.string().length(4),
  lastUsedAt: z.iso.datetime().optional(),
  keyReplaced: z.literal(true).optional(),
  calls: z.string().optional(),
});

export type Minted = z.output<typeof minted>;
export type Listed = z.output<typeof listed>;

/** `expiresIn`, for example `30d`. */
export type WantedToken = {
  name?: string;
  level?: Level;
  upstream?: string;
  tools?: string[];
  calls?: string;
  expiresIn?: string;
};

/** The address that accepts minted tokens. */
export function addressOf({ resource }: Pick<System, 'resource'>): string {
  return `${resource}/mcp`;
}

export async function mint(system: System, wanted: WantedToken = {}): Promise<Minted> {
  const body = { name: 'Nightly report', level: 'operations', ...wanted };
  return minted.parse(await ask(system, 'POST', '/tokens', body));
}

/** Oldest first, at most a thousand. */
export async function listMinted(system: System): Promise<Listed[]> {
  const page = z.strictObject({ items: z.array(listed) });
  return page.parse(await ask(system, 'GET', '/tokens?limit=1000')).items;
}

/** Undefined if the list does not contain it. */
export async function findListed(system: System, id: string): Promise<Listed | undefined> {
  return (await listMinted(system)).find((item) => item.id === id);
}

export async function revoke(system: System, id: string): Promise<Listed> {
  return listed.parse(await ask(system, 'DELETE', `/tokens/${id}`));
}

async function ask(system: System, method: string, path: string, body?: object): Promise<unknown> {
  const { status, text } = await askRaw(system, method, path, body);
  if (status < 300) return JSON.parse(text);
  throw new Error(`${method} ${path}: ${status} ${text}`);
}

export type RawAnswer = { status: number; headers: Headers; text: string };

/** Returns the response without checking its status. */
export async function askRaw(
  { management, managementKey }: System,
  method: string,
  path: string,
  body?: object,
): Promise<RawAnswer> {
  const response = await fetch(`${management}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${managementKey}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
