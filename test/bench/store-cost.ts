// The cost of the store: round trips of a refresh and of a code exchange, encryption, and latency.
import { setTimeout as delay } from 'node:timers/promises';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openClient, type BenchClient } from './client.ts';
import { measureLatency } from './measure-latency.ts';
import { forSeconds, refresh, refreshWhile } from './load.ts';
import { openFamilies } from './rates.ts';
import { type Place, startBareEngine, startGatehouseOn, type Subject } from './subjects.ts';
import { alternate, ratioLine, ratioOf } from './alternate.ts';
import type { Part } from './part.ts';
import { atLeast, atMost, type Report, type Target } from './targets.ts';
import { median, timeOf } from './timing.ts';

const MAX_ROUND_TRIPS = 2;
const MIN_ENCRYPTED_RATIO = 0.9;
const MIN_LATENCY_RATIO = 2.2;
const CONCURRENCY = 16;
/** So large that the time of a request reveals the number of round trips. */
const LATENCY_MS = 50;

type Effort = {
  rounds: number;
  turnSeconds: number;
  /** Warm-up refreshes of each subject, until Node has optimized the code. */
  warmUp: number;
  samples: number;
  /** Longer than any record is cached. */
  cacheExpiredMs: number;
};

const FULL: Effort = {
  rounds: 12,
  turnSeconds: 0.25,
  warmUp: 6000,
  samples: 10,
  cacheExpiredMs: 11_000,
};
const QUICK: Effort = { rounds: 1, turnSeconds: 0.1, warmUp: 16, samples: 1, cacheExpiredMs: 0 };

const PHASES = {
  roundTrips: 'store: round trips',
  encryption: 'store: encryption',
  latency: 'store: latency of Redis',
};

export const storeCost: Part = {
  phases: ({ quick }) => [
    [PHASES.roundTrips, quick ? 3 : 19],
    [PHASES.encryption, quick ? 2 : 17],
    [PHASES.latency, quick ? 3 : 26],
  ],
  async measure(place, begin) {
    const effort = place.quick ? QUICK : FULL;
    begin(PHASES.roundTrips);
    const reports = [await measureRoundTrips(place, effort)];
    begin(PHASES.encryption);
    reports.push(await measureEncryption(place, effort));
    begin(PHASES.latency);
    reports.push(await measureLateRedis(place, effort));
    const lines = reports.map(({ text }) => text);
    return {
      text: ['Redis: round trips before the response, encryption, latency', ...lines].join('\n'),
      targets: reports.flatMap(({ targets }) => targets),
    };
  },
};

async function measureRoundTrips(place: Place, effort: Effort): Promise<Report> {
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
      const refreshed = await roundTripsOf(proxy, effort, async () => refreshing);
      const exchanged = await roundTripsOf(proxy, effort, exchanging);
      await delay(effort.cacheExpiredMs);
      proxy.delayReplies(LATENCY_MS);
      const cold = (await timeOf(refreshing)) / LATENCY_MS;
      const afterPause = `a refresh after ${effort.cacheExpiredMs / 1000} s without use of client, connector and account`;
      return {
        text: [
          roundTripLine('a refresh', refreshed),
          roundTripLine('a code exchange', exchanged),
          `  ${afterPause}: ${cold.toFixed(1)}`,
        ].join('\n'),
        targets: [
          roundTripTarget('a refresh', refreshed),
          roundTripTarget('a code exchange', exchanged),
        ],
      };
    } finally {
      await subject.stop();
      await proxy.close();
    }
  });
}

type RoundTrips = { blocking: number; commands: number };

function roundTripLine(what: string, { blocking, commands }: RoundTrips): string {
  return `  ${what}: ${blocking.toFixed(1)} (${commands.toFixed(1)} commands, those after the response included)`;
}

function roundTripTarget(what: string, { blocking }: RoundTrips): Target {
  return atMost(`${what} waits for Redis`, MAX_ROUND_TRIPS, 'round trips', Math.round(blocking));
}

/** `prepare` creates a request that is ready to be sent; it is not measured. */
async function roundTripsOf(
  proxy: RedisProxy,
  { samples }: Effort,
  prepare: () => Promise<() => Promise<unknown>>,
) {
  const near: number[] = [];
  const far: number[] = [];
  let commands = 0;
  for (let sample = 0; sample < samples; sample += 1)
    for (const [late, times] of [
      [0, near],
      [LATENCY_MS, far],
    ] as const) {
      const send = await prepare();
      proxy.setRule(({ kind }) => {
        if (kind !== '') commands += 1;
        return 'pass';
      });
      proxy.delayReplies(late);
      times.push(await timeOf(send));
      // Work after the response needs two more.
      if (late > 0) await delay(3 * LATENCY_MS);
      proxy.delayReplies(0);
      proxy.setRule();
    }
  return {
    blocking: (median(far) - median(near)) / LATENCY_MS,
    commands: commands / samples / 2,
  };
}

async function measureEncryption(place: Place, effort: Effort): Promise<Report> {
  return withRedis((redis) =>
    withRedis(async (other) => {
      const rates = await compareRefreshes(
        await startGatehouseOn(redis.url, place),
        await startGatehouseOn(other.url, place, { script: 'test/bench/unencrypted-gatehouse.ts' }),
        effort,
      );
      const what = 'refreshes per second compared with Gatehouse without encryption';
      const target = atLeast(
        'refreshes ÷ Gatehouse without encryption',
        MIN_ENCRYPTED_RATIO,
        ratioOf(rates),
      );
      return { text: ratioLine(what, rates), targets: [target] };
    }),
  );
}

async function measureLateRedis(place: Place, effort: Effort): Promise<Report> {
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
        effort,
      );
      const what = `refreshes per second with ${late.toFixed(1)} ms of Redis latency, compared with the engine and the usual Redis adapter`;
      const target = atLeast(
        'refreshes ÷ engine with the usual adapter, Redis 2.5 ms away',
        MIN_LATENCY_RATIO,
        ratioOf(rates),
      );
      return { text: ratioLine(what, rates), targets: [target] };
    }),
  );
}

/** Stops both afterwards. */
async function compareRefreshes(ours: Subject, bare: Subject, effort: Effort) {
  try {
    return await alternate(
      effort.rounds,
      await refresher(ours, effort),
      await refresher(bare, effort),
    );
  } finally {
    await Promise.all([ours.stop(), bare.stop()]);
  }
}

async function refresher(
  subject: Subject,
  { warmUp, turnSeconds }: Effort,
): Promise<() => Promise<number>> {
  const client: BenchClient = await openClient(subject);
  const families = await openFamilies(client, CONCURRENCY);
  const perSecond = async (mayStart: (started: number) => boolean) => {
    const load = await refreshWhile(client, families, CONCURRENCY, mayStart);
    if (load.failures[0] !== undefined) throw new Error(load.failures[0]);
    return load.refreshes / load.seconds;
  };
  await perSecond((started) => started < warmUp);
  return () => perSecond(forSeconds(turnSeconds));
}

async function withRedis<Result>(use: (redis: RedisServer) => Promise<Result>): Promise<Result> {
  const redis = await startRedis();
  try {
    return await use(redis);
  } finally {
    await redis.stop();
  }
}
