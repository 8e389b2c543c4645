// The key of recorded clients that authenticate with one, and the secret of those in the settings.
import { exportJWK, generateKeyPair } from 'jose';

export const KEY_ID = 'recorded';
export const CLIENT_KEY = generateKeyPair('RS256');
export const FIXED_SECRET = 'a-secret-of-a-recorded-client-in-the-settings';

export async function publishedKeys(): Promise<object> {
  const { publicKey } = await CLIENT_KEY;
  return { keys: [{ ...(await exportJWK(publicKey)), kid: KEY_ID, alg: 'RS256', use: 'sig' }] };
}
