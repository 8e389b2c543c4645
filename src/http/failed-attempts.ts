// Guessing of secrets: who was wrong too often from one address is not heard for a while, except with what was right there before.
import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { clientSubnet } from './client-subnet.ts';
import type { RateLimit } from './rate-limits.ts';

export type Attempt = {
  address: string;
  /** Whose secret it is. */
  subject: string;
  /** What was given. */
  secret: string;
};

/** What became of an attempt; `wait`: in seconds, nothing was compared or it was wrong once too often. */
export type Verdict = { isRight: boolean; wait?: number };

export type AttemptLimiter = (attempt: Attempt, isRight: () => boolean) => Promise<Verdict>;

const MOST_PROVEN = 10_000;

/** Others at the same address cannot keep out whoever has the right secret and uses it. */
export function limitFailedAttempts(limit: RateLimit): AttemptLimiter {
  const proven = new LRUCache<string, true>({ max: MOST_PROVEN });
  return async function judge({ address, subject, secret }, isRight) {
    const attempt = digest(`${clientSubnet(address)}\n${subject}\n${secret}`);
    const wait = proven.has(attempt) ? undefined : limit.wait(address, subject);
    if (wait !== undefined) return { isRight: false, wait };
    if (isRight()) {
      proven.set(attempt, true);
      return { isRight: true };
    }
    const late = await limit.take(address, subject);
    return late === undefined ? { isRight: false } : { isRight: false, wait: late };
  };
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
