import type { Settings } from '../../settings/settings.ts';

export const CONSOLE_PATH = '/console';
export const CONSOLE_CALLBACK_PATH = `${CONSOLE_PATH}/callback`;

/** Undefined if the settings name no administrator: then there is no console. */
export function consoleUrl({ management, managementUrl }: Settings): string | undefined {
  return management.administrators.length > 0 ? managementUrl + CONSOLE_PATH : undefined;
}

export type RecordSection = 'connectors' | 'clients' | 'grants' | 'accounts';

/** Returns the path of the page of one record. Ids of clients can be URLs. */
export function recordPath(section: RecordSection, id: string): string {
  return `${CONSOLE_PATH}/${section}/${encodeURIComponent(id)}`;
}

const RECORD_PATH = /^\/console\/(connectors|clients|grants|accounts)\/[\w.!~*'()%-]{1,1500}$/;

/** Returns the page of a record that a form was sent from, or undefined if it names no such page. */
export function returnPath({ returnTo = '' }: Record<string, string>): string | undefined {
  return RECORD_PATH.test(returnTo) ? returnTo : undefined;
}
