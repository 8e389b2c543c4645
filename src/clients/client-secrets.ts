import { createHash, randomBytes } from 'node:crypto';

/** 256 random bits. */
export function newClientSecret(): string {
  return randomBytes(32).toString('base64url');
}

/** Only the digest of a client secret is stored. A plain hash suffices for 256 random bits (RFC 6819 section 5.1.4.1.3). */
export function secretDigest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}
