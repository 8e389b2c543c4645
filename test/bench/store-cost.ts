// Cost of the store: round trips of a refresh and of a code exchange, encryption, and a Redis with latency.
import { setTimeout as delay } from 'node:timers/promises';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openClient, type BenchClient } from './client.ts';
import { measureLatency } from './measure-latency.ts';
import { forSeconds, refresh, refreshWhile } from './load.ts';
import { openFamilies } from './rates.ts';
import { type Place, startBareEngine, startGatehouseOn, type Subject } from './subjects.ts';
import { alternate, ratioLine } from './alternate.ts';
import { targetLine } from './text.ts';
import { median, timeOf } from './timing.ts';

const MAX_ROUND_TRIPS = 2;
const MIN_ENCRYPTED_RATIO = 0.9;
const MIN_LATENCY_RATIO = 2;
const ROUNDS = 24;
const TURN_SECONDS = 0.25;
const CONCURRENCY = 16;
/** Refreshes of each subject before the rounds, until Node has optimized the code. */
const WARM_UP = 10_000;
const SAMPLES = 15;
/** Large compared with everything else, so that the time of a request tells how many round trips it waited for. */
const LATENCY_MS = 50;
/** Longer than any cached record is fresh. */
const CACHE_EXPIRED_MS = 11_000;

/** The lines for the report. Throws when a refresh fails. */
export async function measureStoreCost(place: Place): Promise<string> {
  const lines = [
    ...(await roundTripLines(place)),
    await encryptionLine(place),
    await latencyLine(place),
  ];
  return ['Redis: round trips before the response, encryption, latency', ...lines].join('\n');
}

async function roundTripLines(place: Place): Promise<string[]> {
  return withRedis(async (redis) => {
    const proxy = await startRedisProxy(redis);
    const subject = await startGatehouseOn(proxy.url, place);
    try {
      const client = await openClient(subject);
      const family = await client.openFamily();
      const refreshing = async () => {
        const failure = await refresh(client, family);
        if (failure !== undefined) throw new Error(failure);
      };
      const exchanging = async () => (await client.openCode()).exchange;
      const refreshed = await roundTripsOf(proxy, async () => refreshing);
      const exchanged = await roundTripsOf(proxy, exchanging);
      await delay(CACHE_EXPIRED_MS);
      proxy.delay(LATENCY_MS);
      const cold = (await timeOf(refreshing)) / LATENCY_MS;
      return [
        roundTripLine('a refresh', refreshed),
        roundTripLine('a code exchange', exchanged),
        `          a refresh after ${CACHE_EXPIRED_MS / 1000} s without use of client, connector and account: ${cold.toFixed(1)}`,
      ];
    } finally {
      await subject.stop();
      await proxy.close();
    }
  });
}

type RoundTrips = { blocking: number; commands: number };

function roundTripLine(what: string, { blocking, commands }: RoundTrips): string {
  const measured = `${blocking.toFixed(1)} (${commands.toFixed(1)} commands, those after the response included)`;
  return targetLine(
    Math.round(blocking) <= MAX_ROUND_TRIPS,
    `${what} waits for at most ${MAX_ROUND_TRIPS}`,
    measured,
  );
}

/** `prepare` makes a request that is ready to be sent; it is not measured. */
async function roundTripsOf(proxy: RedisProxy, prepare: () => Promise<() => Promise<unknown>>) {
  const near: number[] = [];
  const far: number[] = [];
  let commands = 0;
  for (let sample = 0; sample < SAMPLES; sample += 1)
    for (const [late, times] of [
      [0, near],
      [LATENCY_MS, far],
    ] as const) {
      const send = await prepare();
      proxy.rule(({ kind }) => {
        if (kind !== '') commands += 1;
        return 'pass';
      });
      proxy.delay(late);
      times.push(await timeOf(send));
      // What follows an answer needs two more.
      if (late > 0) await delay(3 * LATENCY_MS);
      proxy.delay(0);
      proxy.rule();
    }
  return {
    blocking: (median(far) - median(near)) / LATENCY_MS,
    commands: commands / SAMPLES / 2,
  };
}

async function encryptionLine(place: Place): Promise<string> {
  return withRedis((redis) =>
    withRedis(async (other) => {
      const rates = await compareRefreshes(
        await startGatehouseOn(redis.url, place),
        await startGatehouseOn(other.url, place, { script: 'test/bench/unencrypted-gatehouse.ts' }),
      );
      const what = 'refreshes per second compared with Gatehouse without encryption';
      return ratioLine(what, rates, MIN_ENCRYPTED_RATIO);
    }),
  );
}

async function latencyLine(place: Place): Promise<string> {
  return withRedis((redis) =>
    withRedis(async (other) => {
      const late = await measureLatency(redis.url);
      const rates = await compareRefreshes(
        await startGatehouseOn(redis.url, place, {
          script: 'test/bench/gatehouse-with-latency.ts',
        }),
        await startBareEngine(place, {
          redisUrl: other.url,
          script: 'test/bench/bare-engine-with-latency.ts',
        }),
      );
      const what = `refreshes per second with ${late.toFixed(1)} ms of Redis latency, compared with the engine and the usual Redis adapter`;
      return ratioLine(what, rates, MIN_LATENCY_RATIO);
    }),
  );
}

/** Stops both in the end. */
async function compareRefreshes(ours: Subject, bare: Subject) {
  try {
    return await alternate(ROUNDS, await refresher(ours), await refresher(bare));
  } finally {
    await Promise.all([ours.stop(), bare.stop()]);
  }
}

async function refresher(subject: Subject): Promise<() => Promise<number>> {
  const client: BenchClient = await openClient(subject);
  const families = await openFamilies(client, CONCURRENCY);
  const perSecond = async (mayStart: (started: number) => boolean) => {
    const load = await refreshWhile(client, families, CONCURRENCY, mayStart);
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
