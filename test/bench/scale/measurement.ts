// The measurement at one size: Redis memory, response times for people chosen at random, and rates.
import type { Agent } from 'node:http';
import type { Redis } from 'ioredis';
import { call } from '../tool-calls.ts';
import { openClient } from '../client.ts';
import { forSeconds, refresh } from '../load.ts';
import { median, timeOf } from '../timing.ts';
import type { Subject } from '../subjects.ts';
import { alternate } from '../alternate.ts';
import { usedMemory } from './inventory.ts';
import type { Effort } from './options.ts';
import type { Person } from './people.ts';

export type Measured = {
  people: number;
  /** Counters of Redis since before the first request. */
  bytes: number;
  keys: number;
  /** Sequential requests. */
  refresh: Comparison;
  firstCall: Comparison;
  /** Concurrent requests. */
  refreshesPerSecond: Comparison;
  callsPerSecond: Comparison;
};

/** Medians in milliseconds, or rates per second; `ratio` is to the small system, measured at the same time. */
export type Comparison = { value: number; ratio: number };

export type Gatehouse = {
  agent: Agent;
  tokenEndpoint: string;
};

export type Population = Gatehouse & { people: readonly Person[] };

const CONNECTIONS = 16;
const PEOPLE_AT_ONCE = 8;

export async function measure(
  redis: Redis,
  large: Population,
  small: Population,
  empty: { bytes: number; keys: number },
  effort: Effort,
): Promise<Omit<Measured, 'people'>> {
  const bytes = (await usedMemory(redis)) - empty.bytes;
  const keys = (await redis.dbsize()) - empty.keys;
  // Rates are measured first, as a warm-up for the times.
  return {
    bytes,
    keys,
    refreshesPerSecond: await compareRates(effort, large, small, refreshOne),
    callsPerSecond: await compareRates(effort, large, small, callOne),
    refresh: await compareTimes(effort.requests, large, small, refreshOne),
    // With a token that the server has not verified before.
    firstCall: await compareTimes(effort.requests, large, small, callOne, refreshOne),
  };
}

type Act = (gatehouse: Gatehouse, person: Person) => Promise<void>;

export async function refreshOne(
  { agent, tokenEndpoint }: Gatehouse,
  person: Person,
): Promise<void> {
  const { clientId, resource } = person;
  const failure = await refresh({ agent, tokenEndpoint, clientId, resource }, person);
  if (failure !== undefined) throw new Error(failure);
}

/** Gets an access token for the person first, if there is none. */
export async function callOne(gatehouse: Gatehouse, person: Person): Promise<void> {
  if (person.accessToken === '') await refreshOne(gatehouse, person);
  const { resource: url, accessToken: token } = person;
  await call({ url, agent: gatehouse.agent, token });
}

async function compareTimes(
  count: number,
  large: Population,
  small: Population,
  act: Act,
  prepare: Act = async () => undefined,
): Promise<Comparison> {
  const [ours, theirs] = [chosenFrom(large, count), chosenFrom(small, count)];
  const times: { large: number; small: number }[] = [];
  for (let n = 0; n < count; n += 1) {
    const [person, other] = [personAt(ours, n), personAt(theirs, n)];
    await prepare(large, person);
    await prepare(small, other);
    times.push({
      large: await timeOf(() => act(large, person)),
      small: await timeOf(() => act(small, other)),
    });
  }
  const value = median(times.map((time) => time.large));
  return { value, ratio: value / median(times.map((time) => time.small)) };
}

/** In short turns, so that other load on the machine slows both equally. */
async function compareRates(
  { rounds, turnSeconds }: Effort,
  large: Population,
  small: Population,
  act: Act,
): Promise<Comparison> {
  const measured = await alternate(
    rounds,
    () => perSecond(turnSeconds, chosenFrom(large), (person) => act(large, person)),
    () => perSecond(turnSeconds, chosenFrom(small), (person) => act(small, person)),
  );
  return {
    value: median(measured.map(({ ours: rate }) => rate)),
    ratio: median(measured.map(({ ours: rate, bare }) => rate / bare)),
  };
}

async function perSecond(
  turnSeconds: number,
  people: Person[],
  act: (person: Person) => Promise<void>,
): Promise<number> {
  const { done, seconds } = await work(people, turnSeconds, act);
  return done / seconds;
}

/** Each connection takes the person who waited longest; a person is on one connection at a time. */
export async function work(
  people: readonly Person[],
  seconds: number,
  act: (person: Person) => Promise<void>,
): Promise<{ done: number; seconds: number }> {
  const waiting = [...people];
  const mayStart = forSeconds(seconds);
  let done = 0;
  const connection = async () => {
    while (mayStart()) {
      const each = waiting.shift();
      if (!each) return;
      await act(each);
      waiting.push(each);
      done += 1;
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  return { done, seconds: (performance.now() - begun) / 1000 };
}

/** Complete flows, from registration to tokens, with new clients of a few people in parallel. */
export async function connectNew(
  { subject }: { subject: Subject },
  seconds: number,
): Promise<{ done: number; seconds: number }> {
  const mayStart = forSeconds(seconds);
  let done = 0;
  const one = async () => {
    while (mayStart()) {
      await (await openClient(subject)).openFamily();
      done += 1;
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: PEOPLE_AT_ONCE }, one));
  return { done, seconds: (performance.now() - begun) / 1000 };
}

function personAt(people: readonly Person[], n: number): Person {
  const person = people[n % people.length];
  if (!person) throw new Error('nobody is connected');
  return person;
}

/** A random item. */
function chosenFrom({ people }: Population, count = people.length): Person[] {
  return shuffled(people).slice(0, count);
}

export function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
