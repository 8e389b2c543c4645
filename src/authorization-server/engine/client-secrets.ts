// Client secrets at rest: only their digests, which is enough for secrets of 256 random bits (RFC 6819 section 5.1.4.1.3).
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Provider } from 'oidc-provider';

export function secretDigest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

/**
 * The engine compares through this method of its Client so that it can be replaced for stored digests. What it calls the secret is then the
 * digest, for registered clients and for those of the settings alike.
 */
export function compareByDigest(provider: Provider): void {
  provider.Client.prototype.compareClientSecret = function compareDigests(actual: string): boolean {
    const stored = Buffer.from(this.clientSecret ?? '');
    const given = Buffer.from(secretDigest(actual));
    return stored.length === given.length && timingSafeEqual(stored, given);
  };
}
