// Counts in Redis, of all processes together: a plain number for each window, which expires when the window ends.
import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { Result } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import type { ByteStore } from './byte-store.ts';
import type { RedisClient } from './redis-client.ts';

/** As the script of the library, but what is given back after a window has ended does not begin one. */
const COUNT = `
  local times = tonumber(ARGV[1])
  if times < 0 and redis.call('exists', KEYS[1]) == 0 then return {0, 0} end
  redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
  return {redis.call('incrby', KEYS[1], times), redis.call('pttl', KEYS[1])}`;

const ADD_TO_COUNTS = `
  local counts = {}
  for n, key in ipairs(KEYS) do
    local count = redis.call('incrby', key, ARGV[2 * n - 1])
    local left = redis.call('pttl', key)
    if left < 0 then
      redis.call('expire', key, ARGV[2 * n])
      left = 1000 * ARGV[2 * n]
    end
    counts[2 * n - 1], counts[2 * n] = count, left
  end
  return counts`;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    addToCounts(keys: number, ...keysAndValues: (string | number)[]): Result<number[], Context>;
  }
}

type AddToCounts = NonNullable<ByteStore['addToCounts']>;
type Addition = Parameters<AddToCounts>[0][number];

/** Without `mayMix`, the counters may be on different servers. */
export function redisCounters(
  client: RedisClient,
  mayMix: boolean,
): Pick<ByteStore, 'openLimiter' | 'addToCounts'> {
  client.defineCommand('addToCounts', { lua: ADD_TO_COUNTS });
  const add: AddToCounts = async (additions) => {
    // What waits for a connection would be counted later, although its callers have counted it themselves.
    if (client.status !== 'ready') throw new Error(`the connection to Redis is ${client.status}`);
    const replies = await client.addToCounts(
      additions.length,
      ...additions.map(({ name }) => name),
      ...additions.flatMap(({ times, seconds }) => [times, seconds]),
    );
    return additions.map((_, n) => ({
      count: replies[2 * n] ?? NaN,
      left: replies[2 * n + 1] ?? NaN,
    }));
  };
  const addAll: AddToCounts = mayMix
    ? togetherInATurn(add)
    : async (additions) => (await Promise.all(additions.map((addition) => add([addition])))).flat();
  return {
    openLimiter: (limits) =>
      new RateLimiterRedis({
        ...limits,
        storeClient: client,
        rejectIfRedisNotReady: true,
        customIncrTtlLuaScript: COUNT,
      }),
    addToCounts: addAll,
  };
}

/**
 * What comes in one turn of the event loop goes together: sending and receiving a command takes more processor time than its counts, here and in
 * Redis. It does not wait for a command that is under way, because Redis may be far away.
 */
function togetherInATurn(add: AddToCounts): AddToCounts {
  let next: { additions: Addition[]; counted: ReturnType<AddToCounts> } | undefined;
  const send = async (additions: readonly Addition[]) => {
    await endOfTurn();
    next = undefined;
    return addTogether(add, additions);
  };
  return async (additions) => {
    if (!next) {
      const waiting: Addition[] = [];
      next = { additions: waiting, counted: send(waiting) };
    }
    const { additions: waiting, counted } = next;
    const start = waiting.length;
    waiting.push(...additions);
    return (await counted).slice(start, start + additions.length);
  };
}

/** Adds to each counter once. Resolves to the counts as if the additions had come one after another. */
async function addTogether(
  add: AddToCounts,
  additions: readonly Addition[],
): ReturnType<AddToCounts> {
  const sums = new Map<string, Addition>();
  const sumsSoFar = additions.map((addition) => {
    const times = addition.times + (sums.get(addition.name)?.times ?? 0);
    sums.set(addition.name, { ...addition, times });
    return times;
  });
  const counters = [...sums.keys()];
  const counted = await add([...sums.values()]);
  const found = new Map(counters.map((name, n) => [name, counted[n]]));
  return additions.map(({ name }, n) => {
    const { count = NaN, left = NaN } = found.get(name) ?? {};
    return { count: count - (sums.get(name)?.times ?? 0) + (sumsSoFar[n] ?? 0), left };
  });
}
