// Client secrets at rest: only their digests, which is enough for secrets of 256 random bits (RFC 6819 section 5.1.4.1.3).
import { createHash } from 'node:crypto';
import { Provider } from 'oidc-provider';
import { constantTimeEqual } from '../../constant-time.ts';
import type { AttemptLimiter } from '../../http/failed-attempts.ts';
import { tooManyAttempts } from './errors.ts';
import { requestContext } from '../../http/request-context.ts';

export function secretDigest(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}

/**
 * The engine compares through this method of its Client so that it can be replaced for stored digests. What it calls the secret is then the
 * digest, for registered clients and for those of the settings alike. Guesses are counted here, where a secret is known to be wrong.
 */
export function compareByDigest(provider: Provider, guard: AttemptLimiter): void {
  provider.Client.prototype.compareClientSecret = async function compareDigests(
    actual: string,
  ): Promise<boolean> {
    const stored = this.clientSecret ?? '';
    const ctx = Provider.ctx;
    if (!ctx) return isSecret(stored, actual);
    const attempt = {
      address: requestContext(ctx).address,
      subject: this.clientId,
      secret: actual,
    };
    const { isRight, wait } = await guard(attempt, () => isSecret(stored, actual));
    if (wait !== undefined) throw tooManyAttempts(ctx, wait);
    return isRight;
  };
}

function isSecret(digest: string, given: string): boolean {
  return constantTimeEqual(digest, secretDigest(given));
}
