// What codes and refresh tokens look like: `<grant>~<mac>` and `<grant>~<generation>~<mac>`; every one is recognised and none is stored.
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';

/** A code, or the generation of a refresh token. */
export type Part = 'code' | number;

export type TokenName = { grantId: string; part: Part; mac: string };

// Not dots as separators: three parts with dots between them look like a JWT.
const CODE = /^([\w-]{16,64})~([\w-]{43})$/;
const REFRESH_TOKEN = /^([\w-]{16,64})~(0|[1-9]\d{0,8})~([\w-]{43})$/;

export function parseTokenName(value: string): TokenName | undefined {
  const [, codeGrant, codeMac] = CODE.exec(value) ?? [];
  if (codeGrant && codeMac) return { grantId: codeGrant, part: 'code', mac: codeMac };
  const [, grantId, generation, mac] = REFRESH_TOKEN.exec(value) ?? [];
  return grantId && generation && mac ? { grantId, part: Number(generation), mac } : undefined;
}

/** `keys[0]` names; every key of the ring recognises. */
export function createTokenName(
  keys: readonly KeyObject[],
  grantId: string,
  part: Part,
  seed: string,
): string {
  const [key] = keys;
  if (!key) throw new TypeError('a token cannot be named without a key');
  const mac = macOf(key, grantId, part, seed);
  return part === 'code' ? `${grantId}~${mac}` : `${grantId}~${part}~${mac}`;
}

export function isOurs(
  keys: readonly KeyObject[],
  { grantId, part, mac }: TokenName,
  seed: string,
): boolean {
  return keys.some((key) =>
    timingSafeEqual(Buffer.from(macOf(key, grantId, part, seed)), Buffer.from(mac)),
  );
}

function macOf(key: KeyObject, grantId: string, part: Part, seed: string): string {
  return createHmac('sha256', key).update(`${grantId}|${part}|${seed}`).digest('base64url');
}
