// Reads the signing keys from the management API and from the JWKS.
import { type JWK, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import type { System } from '../support/system.ts';

const list = z.strictObject({
  items: z.array(
    z.strictObject({
      id: z.string(),
      state: z.enum(['next', 'signing', 'retiring']),
      signsFrom: z.iso.datetime(),
      publishedUntil: z.iso.datetime().optional(),
    }),
  ),
});

export type Key = z.output<typeof list>['items'][number];

export function listKeys(system: System): Promise<Key[]> {
  return ask(system, 'GET', '/keys');
}

/** Returns all keys after the rotation. Throws the error of the API. */
export function rotateKeys(system: System, body?: { atOnce: boolean }): Promise<Key[]> {
  return ask(system, 'POST', '/keys/rotate', body);
}

async function ask(
  { management, managementKey }: System,
  method: string,
  path: string,
  body?: object,
): Promise<Key[]> {
  const response = await fetch(`${management}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${managementKey}`,
      ...(body ? { 'content-type': 'application/json' } : {}),
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return list.parse(JSON.parse(text)).items;
}

export async function readJwks({ auth }: Pick<System, 'auth'>): Promise<JWK[]> {
  const response = await fetch(`${auth}/oauth/jwks`);
  return ((await response.json()) as { keys: JWK[] }).keys;
}

export async function publishedIds(system: Pick<System, 'auth'>): Promise<(string | undefined)[]> {
  return (await readJwks(system)).map(({ kid }) => kid);
}

/** Returns the id of the key that signed a token. */
export function signedBy(token: string | undefined): string | undefined {
  return decodeProtectedHeader(token ?? '').kid;
}
