import { createHash } from 'node:crypto';
import { lruCache } from '../lru-cache.ts';
import { clientSubnet } from './client-subnet.ts';
import type { RateLimit } from './rate-limits.ts';

export type Attempt = {
  address: string;
  /** Whose secret it is, such as a client id. */
  subject: string;
  secret: string;
};

/** With `retryAfter` (seconds), the limit is exceeded. The secret was then wrong or was not checked. */
export type AttemptResult = { isCorrect: boolean; retryAfter?: number };

export type AttemptLimiter = (attempt: Attempt, isCorrect: () => boolean) => Promise<AttemptResult>;

const MAX_KNOWN_SECRETS = 10_000;

/**
 * Stops checking secrets after too many failed attempts on one subject from one subnet. A secret that was correct there before is still
 * accepted, so that nobody can lock out the others at their address.
 */
export function limitFailedAttempts(limit: RateLimit): AttemptLimiter {
  const correct = lruCache<true>(MAX_KNOWN_SECRETS);
  return async function checkSecret({ address, subject, secret }, isCorrect) {
    const attempt = digest(`${clientSubnet(address)}\n${subject}\n${secret}`);
    const blockedFor = correct.has(attempt) ? undefined : limit.blockedFor(address, subject);
    if (blockedFor !== undefined) return { isCorrect: false, retryAfter: blockedFor };
    if (isCorrect()) {
      correct.set(attempt, true);
      return { isCorrect: true };
    }
    const retryAfter = await limit.consume(address, subject);
    return retryAfter === undefined ? { isCorrect: false } : { isCorrect: false, retryAfter };
  };
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
