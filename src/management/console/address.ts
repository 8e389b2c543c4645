import type { Settings } from '../../settings/settings.ts';

export const CONSOLE_PATH = '/console';
export const CONSOLE_CALLBACK_PATH = `${CONSOLE_PATH}/callback`;

/** Undefined if the settings name no administrator: then there is no console. */
export function consoleUrl({ management, managementUrl }: Settings): string | undefined {
  return management.administrators.length > 0 ? managementUrl + CONSOLE_PATH : undefined;
}

export type RecordSection = 'connectors' | 'clients' | 'grants' | 'accounts';

/** Ids of clients can be URLs, and no canonical path contains an escape. */
const PLAIN_ID = /^[\w-]+$/;
const ENCODED = '~';

/** Returns the path of the page of one record. `recordId` reads it. */
export function recordPath(section: RecordSection, id: string): string {
  const segment = PLAIN_ID.test(id) ? id : ENCODED + Buffer.from(id).toString('base64url');
  return `${CONSOLE_PATH}/${section}/${segment}`;
}

/** Returns the path of the page that shows what an MCP server changed in its tools. */
export function reviewPath(upstream: string): string {
  return `${CONSOLE_PATH}/servers/${encodeURIComponent(upstream)}/review`;
}

/** Returns the id in the last segment of `recordPath`. */
export function recordId(segment: string): string {
  if (!segment.startsWith(ENCODED)) return segment;
  return Buffer.from(segment.slice(ENCODED.length), 'base64url').toString();
}

const RETURN_PATH = /^\/console\/[a-z]{1,20}(\/[\w~-]{1,4000})?(\?[\w.%=&+*~-]{1,4000})?$/;

/** Returns the list, with its search, or the page of a record that a form was sent from, or undefined if it names no such page. */
export function returnPath({ returnTo = '' }: Record<string, string>): string | undefined {
  return RETURN_PATH.test(returnTo) ? returnTo : undefined;
}
