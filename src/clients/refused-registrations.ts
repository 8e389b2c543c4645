// Registrations that were refused because no redirect host is allowed, so that an administrator sees which apps people try.
import { createHash } from 'node:crypto';
import { appWithCallback, listedRedirects } from '../settings/apps.ts';
import { isListedRedirect } from '../settings/redirect-uri.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';

/** `seenAt` is the last time, in seconds since the epoch. */
export type RefusedRegistration = {
  id: string;
  name: string;
  redirectUris: string[];
  seenAt: number;
};

const KEY = 'refused-registrations:all';
const MAX_REFUSED = 100;
const KEPT_SECONDS = 30 * 86_400;
const MAX_NAME_LENGTH = 80;
const MAX_URIS = 5;
/** With more, a registration is malformed. */
const MAX_GIVEN = 20;
const MAX_URI_LENGTH = 300;

/** One for each name and set of hosts: the last 100. */
export async function saveRefusedRegistration(
  store: Store,
  { name, redirectUris }: { name: unknown; redirectUris: unknown },
  now: number,
): Promise<void> {
  const uris = (Array.isArray(redirectUris) ? redirectUris : []).filter(
    (uri): uri is string =>
      typeof uri === 'string' && uri.length <= MAX_URI_LENGTH && URL.canParse(uri),
  );
  if (uris.length === 0 || uris.length > MAX_GIVEN) return;
  const known = typeof name === 'string' ? name.slice(0, MAX_NAME_LENGTH).toWellFormed() : '';
  const hosts = uris.map((uri) => new URL(uri).host || new URL(uri).protocol).sort();
  const id = createHash('sha256')
    .update(JSON.stringify([known, hosts]))
    .digest('base64url');
  const added = { id, name: known, redirectUris: uris.slice(0, MAX_URIS), seenAt: Math.floor(now) };
  await store.update<RefusedRegistration[]>(KEY, (current = []) => ({
    value: [added, ...current.filter((each) => each.id !== id)].slice(0, MAX_REFUSED),
    ttl: KEPT_SECONDS,
  }));
}

/** The last one first, without those that the settings allow by now. */
export async function listRefusedRegistrations(
  store: Store,
  clients: Settings['clients'],
): Promise<RefusedRegistration[]> {
  const found = (await store.get<RefusedRegistration[]>(KEY))?.value ?? [];
  const listed = listedRedirects(clients);
  return found.filter(
    ({ redirectUris }) => !redirectUris.some((uri) => isListedRedirect(listed, uri)),
  );
}

/** The line of the settings file that would allow the app. */
export function allowingLine(
  redirectUris: readonly string[],
  { apps, allowedRedirects }: Settings['clients'],
): string {
  const app = redirectUris.map(appWithCallback).find((each) => each !== undefined);
  return app
    ? `clients.apps: [${[...apps, app.id].join(', ')}]`
    : // An app chose its URIs: unquoted, one with a comma would be two.
      `clients.allowedRedirects: [${[...allowedRedirects, ...redirectUris].map((uri) => JSON.stringify(uri)).join(', ')}]`;
}
