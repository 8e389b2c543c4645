// What the store costs: round trips of a refresh and of an exchange, encryption, and Redis that is a few milliseconds away.
import { setTimeout as delay } from 'node:timers/promises';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openVisitor, type Visitor } from './families.ts';
import { measureLateness } from './lateness.ts';
import { forSeconds, refresh, refreshWhile } from './load.ts';
import { median, openFamilies } from './rates.ts';
import { type Place, startBareEngine, startGatehouseOn, type Subject } from './subjects.ts';
import { ratioLine, takeTurns, targetLine } from './turns.ts';

const MOST_TRIPS = 2;
const MIN_ENCRYPTED_RATIO = 0.9;
const LEAST_FAR = 2;
const ROUNDS = 24;
const TURN_SECONDS = 0.25;
const CONCURRENCY = 16;
/** Each, before the rounds: what runs for the first seconds is not what runs for days. */
const WARM_UP = 10_000;
const SAMPLES = 15;
/** So much later than all else that it tells how often an answer was waited for. */
const TRIP_MS = 50;
/** Longer than anything that was read is taken for fresh. */
const FORGOTTEN_MS = 11_000;

/** The lines for the report. Throws when a refresh fails. */
export async function measureStoreCost(place: Place): Promise<string> {
  const lines = [...(await tripLines(place)), await encryptionLine(place), await farLine(place)];
  return ['Redis: round trips that an answer waits for, encryption, distance', ...lines].join('\n');
}

async function tripLines(place: Place): Promise<string[]> {
  return withRedis(async (redis) => {
    const proxy = await startRedisProxy(redis);
    const subject = await startGatehouseOn(proxy.url, place);
    try {
      const visitor = await openVisitor(subject);
      const family = await visitor.openFamily();
      const refreshing = async () => {
        const failure = await refresh(visitor, family);
        if (failure !== undefined) throw new Error(failure);
      };
      const exchanging = async () => (await visitor.openCode()).exchange;
      const refreshed = await tripsOf(proxy, async () => refreshing);
      const exchanged = await tripsOf(proxy, exchanging);
      await delay(FORGOTTEN_MS);
      proxy.delay(TRIP_MS);
      const cold = (await timeOf(refreshing)) / TRIP_MS;
      return [
        tripLine('a refresh', refreshed),
        tripLine('a code exchange', exchanged),
        `          a refresh after ${FORGOTTEN_MS / 1000} s in which nobody used client, connector and account: ${cold.toFixed(1)}`,
      ];
    } finally {
      await subject.stop();
      await proxy.close();
    }
  });
}

type Trips = { waitedFor: number; commands: number };

function tripLine(what: string, { waitedFor, commands }: Trips): string {
  const measured = `${waitedFor.toFixed(1)} (${commands.toFixed(1)} commands, with those after the answer)`;
  return targetLine(
    Math.round(waitedFor) <= MOST_TRIPS,
    `${what} waits for at most ${MOST_TRIPS}`,
    measured,
  );
}

/** `prepare` makes a request that is ready to be sent; it is not measured. */
async function tripsOf(proxy: RedisProxy, prepare: () => Promise<() => Promise<unknown>>) {
  const near: number[] = [];
  const far: number[] = [];
  let commands = 0;
  for (let sample = 0; sample < SAMPLES; sample += 1)
    for (const [late, times] of [
      [0, near],
      [TRIP_MS, far],
    ] as const) {
      const send = await prepare();
      proxy.rule(({ kind }) => {
        if (kind !== '') commands += 1;
        return 'pass';
      });
      proxy.delay(late);
      times.push(await timeOf(send));
      // What follows an answer needs two more.
      if (late > 0) await delay(3 * TRIP_MS);
      proxy.delay(0);
      proxy.rule();
    }
  return {
    waitedFor: (median(far) - median(near)) / TRIP_MS,
    commands: commands / SAMPLES / 2,
  };
}

async function timeOf(send: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await send();
  return performance.now() - begun;
}

async function encryptionLine(place: Place): Promise<string> {
  return withRedis((redis) =>
    withRedis(async (other) => {
      const rates = await raceToRefresh(
        await startGatehouseOn(redis.url, place),
        await startGatehouseOn(other.url, place, { script: 'test/bench/unencrypted-gatehouse.ts' }),
      );
      const what = 'refreshes per second next to the same with nothing encrypted';
      return ratioLine(what, rates, MIN_ENCRYPTED_RATIO);
    }),
  );
}

async function farLine(place: Place): Promise<string> {
  return withRedis((redis) =>
    withRedis(async (other) => {
      const late = await measureLateness(redis.url);
      const rates = await raceToRefresh(
        await startGatehouseOn(redis.url, place, { script: 'test/bench/far-gatehouse.ts' }),
        await startBareEngine(place, {
          redisUrl: other.url,
          script: 'test/bench/far-bare-engine.ts',
        }),
      );
      const what = `refreshes per second with Redis ${late.toFixed(1)} ms away, next to the engine with the usual Redis adapter`;
      return ratioLine(what, rates, LEAST_FAR);
    }),
  );
}

/** Stops both in the end. */
async function raceToRefresh(ours: Subject, bare: Subject) {
  try {
    return await takeTurns(ROUNDS, await refresher(ours), await refresher(bare));
  } finally {
    await Promise.all([ours.stop(), bare.stop()]);
  }
}

async function refresher(subject: Subject): Promise<() => Promise<number>> {
  const visitor: Visitor = await openVisitor(subject);
  const families = await openFamilies(visitor, CONCURRENCY);
  const perSecond = async (goesOn: (started: number) => boolean) => {
    const load = await refreshWhile(visitor, families, CONCURRENCY, goesOn);
    if (load.failures[0] !== undefined) throw new Error(load.failures[0]);
    return load.refreshes / load.seconds;
  };
  await perSecond((started) => started < WARM_UP);
  return () => perSecond(forSeconds(TURN_SECONDS));
}

async function withRedis<Result>(use: (redis: RedisServer) => Promise<Result>): Promise<Result> {
  const redis = await startRedis();
  try {
    return await use(redis);
  } finally {
    await redis.stop();
  }
}
