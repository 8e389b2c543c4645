// Limits on how often: by address and in all, with room for networks that many people share (RFC 6585 section 4).
import type Koa from 'koa';
import { LRUCache } from 'lru-cache';
import { type Limit, type Limits, networkList } from '../settings/limits.ts';
import type { OpenCounter } from '../store/counters.ts';
import { canonicalAddress, clientSubnet } from './client-subnet.ts';
import { tooManyRequests } from './errors.ts';
import { requestContext } from './request-context.ts';

/** Times are seconds. `subject` keeps apart what should not count together, for example clients; it must be one that we know. */
export type RateLimit = {
  /** Counts one. How long to wait, when that was one too many. */
  take(address: string, subject?: string): Promise<number | undefined>;
  /** The same without counting, for what this process has seen, and not for the limit of all together. */
  wait(address: string, subject?: string): number | undefined;
  /** Counts so many more for the address alone, after what turned out to be worse than others. Never rejects. */
  charge(address: string, subject: string, times: number): Promise<void>;
};

type Name = Exclude<keyof Limits, 'sharedNetworks'>;

/** `pageRegistrations`: those that web pages have their visitors make, which nobody else should have to wait for. */
export type RateLimits = Record<Name | 'pageRegistrations', RateLimit>;

const REMEMBERED = 50_000;
/**
 * When all together are too many, an address gets a tenth of what it may have: so whoever comes from thousands of addresses cannot keep out
 * everybody else. At ten times as many nobody gets any, because there is an end to every store.
 */
const IN_CROWD = 10;

export function openRateLimits(
  limits: Limits,
  openCounter: OpenCounter,
  now: () => number,
): RateLimits {
  const shared = networkList(limits.sharedNetworks);
  const isShared = (address: string) =>
    shared.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  const open = (
    name: keyof RateLimits,
    differently: Partial<Surroundings> = {},
    limit = limits[name as Name],
  ) =>
    rateLimit(limit, (part, seconds) => openCounter(`${name} ${part}`, seconds), {
      isShared,
      apart: 'own',
      now,
      ...differently,
    });
  return {
    registrations: open('registrations'),
    pageRegistrations: open('pageRegistrations', {}, ofPages(limits.registrations)),
    authorizations: open('authorizations'),
    signIns: open('signIns'),
    // Kept apart by client, so that people who share an address do not share this.
    wrongSecrets: open('wrongSecrets', { isShared: () => false }),
    wrongTokens: open('wrongTokens'),
    documents: open('documents', { apart: 'all' }),
  };
}

const FEWER_OF_PAGES = 5;

/** Few apps run in pages, and those on this computer do not count as such. */
function ofPages({ perAddress, inAll }: Limit): Limit {
  const count = Math.max(1, Math.floor(inAll.count / FEWER_OF_PAGES));
  return { perAddress, inAll: { ...inAll, count } };
}

/** `apart`: what has a count for each subject, that of an address or that of all. */
type Surroundings = {
  isShared: (address: string) => boolean;
  apart: 'own' | 'all';
  now: () => number;
};

function rateLimit(
  { perAddress, inAll }: Limit,
  openCounter: OpenCounter,
  { isShared, apart, now }: Surroundings,
): RateLimit {
  const countOwn = openCounter('address', perAddress.seconds);
  const countAll = openCounter('all', inAll.seconds);
  const waiting = openWaiting(now);
  const inCrowd = Math.max(1, Math.floor(perAddress.count / IN_CROWD));

  const allName = (all: 'all' | 'shared', subject: string) =>
    apart === 'all' ? `${all} ${subject}` : all;
  const takeShared = async (together: string) => {
    const all = await countAll(together);
    return all.count > inAll.count ? waiting.add(together, all.secondsLeft) : undefined;
  };
  const takeOwn = async (who: string, together: string) => {
    const [all, own] = await Promise.all([countAll(together), countOwn(who)]);
    if (all.count > inAll.count * IN_CROWD) return waiting.add(together, all.secondsLeft);
    const isCrowd = all.count > inAll.count;
    if (own.count > perAddress.count) return waiting.add(who, own.secondsLeft);
    if (!isCrowd || own.count <= inCrowd) return undefined;
    return waiting.add(who, Math.min(own.secondsLeft, all.secondsLeft));
  };
  const ownName = (address: string, subject: string) => {
    const canonical = canonicalAddress(address);
    if (canonical !== undefined && isShared(canonical)) return undefined;
    return `${clientSubnet(address)} ${apart === 'own' ? subject : ''}`;
  };
  return {
    async take(address, subject = '') {
      const who = ownName(address, subject);
      const together = allName(who === undefined ? 'shared' : 'all', subject);
      const left = waiting.left(together) ?? (who === undefined ? undefined : waiting.left(who));
      if (left !== undefined) return left;
      return who === undefined ? takeShared(together) : takeOwn(who, together);
    },
    wait(address, subject = '') {
      const who = ownName(address, subject);
      return who === undefined ? undefined : waiting.left(who);
    },
    async charge(address, subject, times) {
      const who = ownName(address, subject);
      if (who !== undefined) await countOwn(who, times);
    },
  };
}

/** Who was told to wait, so that asking again costs the store nothing. Times are seconds. */
function openWaiting(now: () => number) {
  const until = new LRUCache<string, number>({ max: REMEMBERED });
  return {
    left(who: string): number | undefined {
      const left = (until.get(who) ?? 0) - now();
      return left > 0 ? left : undefined;
    },
    add(who: string, seconds: number): number {
      until.set(who, now() + seconds);
      return seconds;
    },
  };
}

/** Refuses (429) what comes too often. */
export function limitRate(limit: RateLimit): Koa.Middleware {
  return async function rateLimited(ctx, next) {
    const wait = await limit.take(requestContext(ctx).address);
    if (wait !== undefined) throw tooManyRequests(wait);
    return next();
  };
}
