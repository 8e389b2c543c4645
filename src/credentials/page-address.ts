// The address where a person connects the own account at an upstream. It is for that person only.
import { createHmac } from 'node:crypto';
import { constantTimeEqual } from '../constant-time.ts';
import type { Settings } from '../settings/settings.ts';
import type { KeyRing } from '../store/stored-keys.ts';

export const CREDENTIALS_PATH = '/credentials';
export const CALLBACK_PATH = `${CREDENTIALS_PATH}/callback`;
/** Of our own client metadata document. */
export const DOCUMENT_PATH = `${CREDENTIALS_PATH}/client.json`;

/** One for all upstreams. Operators register it where a service needs it. */
export function redirectUri({ authUrl }: Pick<Settings, 'authUrl'>): string {
  return `${authUrl}${CALLBACK_PATH}`;
}

/** Characters: short, because people type it. It is a tag, and no secret. */
const TAG_LENGTH = 12;

/** `for` names the person to us and to nobody else. */
export function credentialPageUrl(
  authUrl: string,
  keys: KeyRing,
  upstream: string,
  account: string,
): string {
  return `${authUrl}${CREDENTIALS_PATH}/${upstream}?for=${tags(keys, upstream, account)[0]}`;
}

/** Whether the address was made for this account. */
export function isAddressFor(
  keys: KeyRing,
  upstream: string,
  account: string,
  tag: string,
): boolean {
  return tags(keys, upstream, account).some((own) => constantTimeEqual(own, tag));
}

function tags(keys: KeyRing, upstream: string, account: string): string[] {
  const text = JSON.stringify(['credential page', upstream, account]);
  return keys.map((key) =>
    createHmac('sha256', key).update(text).digest('base64url').slice(0, TAG_LENGTH),
  );
}
