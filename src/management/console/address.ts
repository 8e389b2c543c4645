import type { Settings } from '../../settings/settings.ts';

export const CONSOLE_PATH = '/console';
export const CONSOLE_CALLBACK_PATH = `${CONSOLE_PATH}/callback`;

/** Undefined if the settings name no administrator: then there is no console. */
export function consoleUrl({ management, managementUrl }: Settings): string | undefined {
  return management.administrators.length > 0 ? managementUrl + CONSOLE_PATH : undefined;
}
