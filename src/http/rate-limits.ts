// Limits on how often: by address and in all, with room for networks that many people share (RFC 6585 section 4).
import type Koa from 'koa';
import { LRUCache } from 'lru-cache';
import { type Limit, type Limits, networkList } from '../settings/limits.ts';
import type { Counter, OpenCounter } from '../store/counters.ts';
import { canonicalAddress, groupOf } from './address-group.ts';
import { tooManyRequests } from './errors.ts';

/** Times are seconds. `subject` keeps apart what should not count together, for example clients; it must be one that we know. */
export type RateLimit = {
  /** Counts one. How long to wait, when that was one too many. */
  take(address: string, subject?: string): Promise<number | undefined>;
  /** The same without counting, for what this process has seen, and not for the limit of all together. */
  wait(address: string, subject?: string): number | undefined;
};

export type RateLimits = Record<Exclude<keyof Limits, 'sharedNetworks'>, RateLimit>;

const REMEMBERED = 10_000;

export function openRateLimits(
  limits: Limits,
  openCounter: OpenCounter,
  now: () => number,
): RateLimits {
  const shared = networkList(limits.sharedNetworks);
  const isShared = (address: string) =>
    shared.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  const open = (name: keyof RateLimits, sharing = isShared) =>
    rateLimit(limits[name], (part, seconds) => openCounter(`${name} ${part}`, seconds), {
      isShared: sharing,
      now,
    });
  return {
    registrations: open('registrations'),
    authorizations: open('authorizations'),
    signIns: open('signIns'),
    // Kept apart by client, so that people who share an address do not share this.
    wrongSecrets: open('wrongSecrets', () => false),
    wrongTokens: open('wrongTokens'),
  };
}

type Surroundings = { isShared: (address: string) => boolean; now: () => number };

function rateLimit(
  { perAddress, inAll }: Limit,
  openCounter: OpenCounter,
  { isShared, now }: Surroundings,
): RateLimit {
  const own = spender(openCounter('address', perAddress.seconds), perAddress.count, now);
  const all = spender(openCounter('all', inAll.seconds), inAll.count, now);

  const whose = (address: string, subject: string) => {
    const canonical = canonicalAddress(address);
    const sharing = canonical !== undefined && isShared(canonical);
    return {
      together: sharing ? 'shared' : 'all',
      alone: sharing ? undefined : `${groupOf(address)} ${subject}`,
    };
  };
  return {
    async take(address, subject = '') {
      const { together, alone } = whose(address, subject);
      // First, so that nobody is counted any more, and nothing grows, once all together are too many.
      const known = all.wait(together) ?? (alone === undefined ? undefined : own.wait(alone));
      if (known !== undefined) return known;
      const [first, second] = await Promise.all([
        all.spend(together),
        alone === undefined ? undefined : own.spend(alone),
      ]);
      return first ?? second;
    },
    wait(address, subject = '') {
      const { alone } = whose(address, subject);
      return alone === undefined ? undefined : own.wait(alone);
    },
  };
}

/** Remembers who has nothing left, so that they cost the store nothing. */
function spender(count: Counter, most: number, now: () => number) {
  const spentUntil = new LRUCache<string, number>({ max: REMEMBERED });
  const wait = (who: string) => {
    const left = (spentUntil.get(who) ?? 0) - now();
    return left > 0 ? left : undefined;
  };
  return {
    wait,
    async spend(who: string): Promise<number | undefined> {
      const tally = await count(who);
      if (tally.count < most) return undefined;
      spentUntil.set(who, now() + tally.secondsLeft);
      return tally.count > most ? wait(who) : undefined;
    },
  };
}

/** Refuses (429) what comes too often. */
export function limitRate(limit: RateLimit): Koa.Middleware {
  return async function rateLimited(ctx, next) {
    const wait = await limit.take(ctx.state.address);
    if (wait !== undefined) throw tooManyRequests(wait);
    return next();
  };
}
