// Registrations that were refused because no redirect host is allowed, so that an administrator sees which apps people try.
import { createHash } from 'node:crypto';
import { appWithCallback, listedRedirects } from '../settings/apps.ts';
import { isListedRedirect } from '../settings/redirect-uri.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';

/** The first and the last time, in seconds since the epoch. Records of earlier versions have only the last. */
export type RefusedRegistration = {
  id: string;
  name: string;
  redirectUris: string[];
  since?: number;
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
  const seenAt = Math.floor(now);
  const added = { id, name: known, redirectUris: uris.slice(0, MAX_URIS), seenAt };
  await store.update<RefusedRegistration[]>(KEY, (current = []) => {
    const earlier = current.find((each) => each.id === id);
    const since = earlier ? firstSeen(earlier) : seenAt;
    const others = current.filter((each) => each !== earlier);
    return { value: [{ ...added, since }, ...others].slice(0, MAX_REFUSED), ttl: KEPT_SECONDS };
  });
}

function firstSeen({ since, seenAt }: RefusedRegistration): number {
  return since ?? seenAt;
}

/** Those that the settings do not allow by now, in an order that stays when one is seen again: the newest first. */
export async function listRefusedRegistrations(
  store: Store,
  clients: Settings['clients'],
): Promise<(RefusedRegistration & { place: string })[]> {
  const found = (await store.get<RefusedRegistration[]>(KEY))?.value ?? [];
  const listed = listedRedirects(clients);
  return found
    .filter(({ redirectUris }) => !redirectUris.some((uri) => isListedRedirect(listed, uri)))
    .map((each) => ({ ...each, place: `${firstSeen(each)} ${each.id}` }))
    .toSorted((one, other) => (one.place < other.place ? 1 : -1));
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
