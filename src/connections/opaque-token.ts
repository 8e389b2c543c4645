// Values of codes (`<grant>~<mac>`) and refresh tokens (`<grant>~<generation>~<mac>`). None is stored; the MAC proves that we issued it.
import { createHmac, type KeyObject } from 'node:crypto';
import { constantTimeEqual } from '../constant-time.ts';

/** A code, or the generation of a refresh token. */
export type Part = 'code' | number;

export type OpaqueToken = { grantId: string; part: Part; mac: string };

// Not dots as separators: three parts with dots between them look like a JWT.
const CODE = /^([\w-]{16,64})~([\w-]{43})$/;
const REFRESH_TOKEN = /^([\w-]{16,64})~(0|[1-9]\d{0,8})~([\w-]{43})$/;

export function parseOpaqueToken(value: string): OpaqueToken | undefined {
  const [, codeGrant, codeMac] = CODE.exec(value) ?? [];
  if (codeGrant && codeMac) return { grantId: codeGrant, part: 'code', mac: codeMac };
  const [, grantId, generation, mac] = REFRESH_TOKEN.exec(value) ?? [];
  return grantId && generation && mac ? { grantId, part: Number(generation), mac } : undefined;
}

/** `keys[0]` signs. */
export function createOpaqueToken(
  keys: readonly KeyObject[],
  grantId: string,
  part: Part,
  seed: string,
): string {
  const [key] = keys;
  if (!key) throw new TypeError('a token value needs a key');
  const mac = macOf(key, grantId, part, seed);
  return part === 'code' ? `${grantId}~${mac}` : `${grantId}~${part}~${mac}`;
}

/** Accepts every key of the ring. */
export function hasValidMac(
  keys: readonly KeyObject[],
  { grantId, part, mac }: OpaqueToken,
  seed: string,
): boolean {
  return keys.some((key) => constantTimeEqual(macOf(key, grantId, part, seed), mac));
}

function macOf(key: KeyObject, grantId: string, part: Part, seed: string): string {
  return createHmac('sha256', key).update(`${grantId}|${part}|${seed}`).digest('base64url');
}
