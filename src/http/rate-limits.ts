import type Koa from 'koa';
import { lruCache } from '../lru-cache.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type Limit, type Limits, networkList } from '../settings/limits.ts';
import type { OpenCounter } from '../store/counters.ts';
import { canonicalAddress, clientNetworks, operatorNetwork } from './client-subnet.ts';
import { tooManyRequests } from './errors.ts';
import { requestContext } from './request-context.ts';

/** Times are in seconds. `subject` separates counts, for example by client. It must be known to us, because it enters the store. */
export type RateLimit = {
  /** Counts one request. Resolves to the seconds to wait if it exceeds the limit. */
  consume(address: string, subject?: string): Promise<number | undefined>;
  /** The seconds until this process accepts the address again, without counting. Ignores the limit of all addresses together. */
  blockedFor(address: string, subject?: string): number | undefined;
  /** Counts `times` more for the address alone, or fewer if it is negative. Never rejects. */
  penalize(address: string, subject: string, times: number): Promise<void>;
};

type Name = Exclude<keyof Limits, 'calls' | 'sharedNetworks'>;

/**
 * `pageRegistrations` counts registrations from web pages, so that a page's visitors cannot use up `registrations`. `recordedRegistrations`
 * limits those in the audit log, which keeps them for more than a year, and `registrationGaps` its items about registrations that it lacks. So do
 * `recordedSignIns` and `signInGaps`, by address and person, for sign-ins of people without any access, `recordedAccessRefusals` and
 * `accessRefusalGaps` for people who get no access, `recordedRefusals` for calls with wrong tokens,
 * `recordedWorkloads` for workloads that get no token, and `recordedAttempts` for attempts without a person.
 */
export type RateLimits = Record<
  | Name
  | 'deviceAuthorizations'
  | 'pageRegistrations'
  | 'recordedRegistrations'
  | 'registrationGaps'
  | 'recordedSignIns'
  | 'signInGaps'
  | 'recordedAccessRefusals'
  | 'accessRefusalGaps'
  | 'recordedRefusals'
  | 'recordedWorkloads'
  | 'recordedAttempts',
  RateLimit
>;

/** Blocked addresses of which a process knows, per limit. */
const MAX_BLOCKED = 50_000;
/**
 * Above the limit of all addresses together, each address gets a tenth of its own limit, so that one client with thousands of addresses cannot
 * lock out all others. Above ten times that limit, only networks are accepted that have not taken part in the flood, once more up to the limit:
 * every store is finite.
 */
const CROWD_FACTOR = 10;
/** The limits of an IPv6 /64, /56 and /48 in limits of an address. A /48 has 65,536 networks, and often one owner. */
const IPV6_SHARES = [1, 4, 8];

export function openRateLimits(
  limits: Limits,
  openCounter: OpenCounter,
  now: () => number,
  metrics?: Metrics,
): RateLimits {
  const shared = networkList(limits.sharedNetworks);
  const isShared = (address: string) =>
    shared.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  const open = (name: keyof RateLimits, limit: Limit, options: Partial<RateLimitOptions> = {}) => {
    const counter = (part: string, seconds: number) => openCounter(`${name} ${part}`, seconds);
    const opened = rateLimit(limit, counter, { isShared, subjectOf: 'address', now, ...options });
    return metrics ? countBlocked(opened, name, metrics) : opened;
  };
  return {
    registrations: open('registrations', limits.registrations),
    pageRegistrations: open('pageRegistrations', pageLimit(limits.registrations)),
    recordedRegistrations: open('recordedRegistrations', RECORDED_REGISTRATIONS),
    registrationGaps: open('registrationGaps', REGISTRATION_GAPS),
    recordedSignIns: open('recordedSignIns', RECORDED_SIGN_INS),
    signInGaps: open('signInGaps', REGISTRATION_GAPS),
    recordedAccessRefusals: open('recordedAccessRefusals', RECORDED_SIGN_INS),
    accessRefusalGaps: open('accessRefusalGaps', REGISTRATION_GAPS),
    recordedAttempts: open('recordedAttempts', RECORDED_ATTEMPTS),
    recordedRefusals: open('recordedRefusals', RECORDED_REGISTRATIONS),
    recordedWorkloads: open('recordedWorkloads', RECORDED_REGISTRATIONS),
    authorizations: open('authorizations', limits.authorizations),
    // Web pages can send them, and must not use up the limit of the sign-ins of their visitors.
    deviceAuthorizations: open('deviceAuthorizations', limits.authorizations),
    signIns: open('signIns', limits.signIns),
    // Counted by client, so that people in one network do not share a limit.
    wrongSecrets: open('wrongSecrets', limits.wrongSecrets, { isShared: () => false }),
    wrongTokens: open('wrongTokens', limits.wrongTokens),
    userCodes: open('userCodes', limits.userCodes),
    documents: open('documents', limits.documents, { subjectOf: 'all' }),
  };
}

const DAY_SECONDS = 86_400;
const RECORDED_REGISTRATIONS: Limit = {
  perAddress: { count: 200, seconds: DAY_SECONDS },
  inAll: { count: 2000, seconds: DAY_SECONDS },
};

/** Attempts are kept for 30 days, and at most 100,000 of them. */
const RECORDED_ATTEMPTS: Limit = {
  perAddress: { count: 200, seconds: DAY_SECONDS },
  inAll: { count: 3000, seconds: DAY_SECONDS },
};

const RECORDED_SIGN_INS: Limit = {
  perAddress: { count: 20, seconds: DAY_SECONDS },
  inAll: RECORDED_REGISTRATIONS.inAll,
};

const REGISTRATION_GAPS: Limit = {
  perAddress: { count: 1, seconds: DAY_SECONDS },
  inAll: RECORDED_REGISTRATIONS.inAll,
};

const PAGE_SHARE = 5;

/** Few apps run in web pages, and those on loopback do not count as such. */
function pageLimit({ perAddress, inAll }: Limit): Limit {
  const count = Math.max(1, Math.floor(inAll.count / PAGE_SHARE));
  return { perAddress, inAll: { ...inAll, count } };
}

type RateLimitOptions = {
  isShared: (address: string) => boolean;
  /** Which count is separate for each subject. */
  subjectOf: 'address' | 'all';
  now: () => number;
};

function rateLimit(
  { perAddress, inAll }: Limit,
  openCounter: OpenCounter,
  { isShared, subjectOf, now }: RateLimitOptions,
): RateLimit {
  const countAddress = openCounter('address', perAddress.seconds);
  const countAll = openCounter('all', inAll.seconds);
  const countOperator = openCounter('operator', inAll.seconds);
  const countReserve = openCounter('reserve', inAll.seconds);
  const blocked = openBlocked(now);
  const countInCrowd = Math.max(1, Math.floor(perAddress.count / CROWD_FACTOR));

  const allKey = (all: 'all' | 'shared', subject: string) =>
    subjectOf === 'all' ? `${all} ${subject}` : all;
  /** Empty in a shared network. */
  const addressKeys = (address: string, subject: string) => {
    const canonical = canonicalAddress(address);
    if (canonical !== undefined && isShared(canonical)) return [];
    const own = subjectOf === 'address' ? subject : '';
    return clientNetworks(address).map((network) => `${network} ${own}`);
  };
  const operatorKey = (address: string, keyOfAll: string) =>
    `${operatorNetwork(address)} ${keyOfAll}`;
  const consumeShared = async (sharedKey: string) => {
    const all = await countAll(sharedKey);
    return all.count > inAll.count ? blocked.add(sharedKey, all.secondsLeft) : undefined;
  };
  const consumeOwn = async (address: string, keys: readonly string[], keyOfAll: string) => {
    const [all, ...own] = await Promise.all([
      countAll(keyOfAll),
      ...keys.map((k) => countAddress(k)),
    ]);
    /** The first of the address's networks with more requests than its share of `limit`. */
    const above = (limit: number) => {
      const at = own.findIndex(({ count }, n) => count > limit * (IPV6_SHARES[n] ?? 1));
      const [key, counted] = [keys[at], own[at]];
      return key === undefined || !counted ? undefined : { key, secondsLeft: counted.secondsLeft };
    };
    const over = above(perAddress.count);
    if (over) return blocked.add(over.key, over.secondsLeft);
    if (all.count <= inAll.count) return undefined;
    const operator = operatorKey(address, keyOfAll);
    const { count: ofOperator } = await countOperator(operator);
    const crowded = above(countInCrowd);
    if (crowded) return blocked.add(crowded.key, Math.min(crowded.secondsLeft, all.secondsLeft));
    if (all.count <= inAll.count * CROWD_FACTOR) return undefined;
    if (ofOperator > perAddress.count) return blocked.add(operator, all.secondsLeft);
    const reserve = await countReserve(keyOfAll);
    return reserve.count <= inAll.count ? undefined : blocked.add(keyOfAll, reserve.secondsLeft);
  };
  const blockedAmong = (keys: readonly string[]) =>
    keys.map((key) => blocked.for(key)).find((seconds) => seconds !== undefined);
  return {
    async consume(address, subject = '') {
      const keys = addressKeys(address, subject);
      const keyOfAll = allKey(keys.length === 0 ? 'shared' : 'all', subject);
      const seconds = blockedAmong([keyOfAll, ...keys, operatorKey(address, keyOfAll)]);
      if (seconds !== undefined) return seconds;
      return keys.length === 0 ? consumeShared(keyOfAll) : consumeOwn(address, keys, keyOfAll);
    },
    blockedFor: (address, subject = '') => blockedAmong(addressKeys(address, subject)),
    async penalize(address, subject, times) {
      await Promise.all(addressKeys(address, subject).map((key) => countAddress(key, times)));
    },
  };
}

/** Remembers which keys are blocked, so that their requests do not reach the store. Times are in seconds. */
function openBlocked(now: () => number) {
  const until = lruCache<number>(MAX_BLOCKED);
  return {
    for(key: string): number | undefined {
      const seconds = (until.get(key) ?? 0) - now();
      return seconds > 0 ? seconds : undefined;
    },
    add(key: string, seconds: number): number {
      until.set(key, now() + seconds);
      return seconds;
    },
  };
}

function countBlocked(limit: RateLimit, name: string, metrics: Metrics): RateLimit {
  metrics.rateLimited(name, 0);
  const count = (seconds: number | undefined) => {
    if (seconds !== undefined) metrics.rateLimited(name);
    return seconds;
  };
  return {
    consume: async (address, subject) => count(await limit.consume(address, subject)),
    blockedFor: (address, subject) => count(limit.blockedFor(address, subject)),
    penalize: limit.penalize,
  };
}

/** Rejects requests above the limit with 429. */
export function limitRate(limit: RateLimit): Koa.Middleware {
  return async function rateLimited(ctx, next) {
    await withinLimit(limit, ctx);
    return next();
  };
}

/** Counts the request while `read` runs, which must not write. Rejects with 429 above the limit, whatever `read` results in. */
export async function withinLimit<T>(
  limit: RateLimit,
  ctx: Koa.Context,
  read?: () => Promise<T>,
): Promise<T | undefined> {
  const { address } = requestContext(ctx);
  const reading = limit.blockedFor(address) === undefined ? read?.() : undefined;
  reading?.catch(() => undefined);
  const retryAfter = await limit.consume(address);
  if (retryAfter !== undefined) throw tooManyRequests(retryAfter);
  return reading;
}
