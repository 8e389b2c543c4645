import type { Settings } from '../settings/settings.ts';
import type { ViewValues } from './values.ts';

/** Returns the values of the home page. In production, it does not tell strangers where the console is. */
export function homeValues({
  authUrl,
  resourceUrl,
  managementUrl,
  management,
  production,
}: Settings): ViewValues['home'] {
  const showsConsole = !production && management.administrators.length > 0;
  return {
    resourceUrl,
    account: `${authUrl}/account`,
    ...(showsConsole ? { console: `${managementUrl}/console` } : {}),
  };
}
