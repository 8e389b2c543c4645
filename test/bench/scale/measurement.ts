// What is measured at one size: Redis, answers to people chosen at random one after the other, how many a second, and a list.
import type { Agent } from 'node:http';
import type { Redis } from 'ioredis';
import { call } from '../calls.ts';
import { forSeconds, refresh } from '../load.ts';
import { median } from '../rates.ts';
import { usedMemory } from './inventory.ts';
import type { Person } from './people.ts';

export type Measured = {
  people: number;
  /** Of Redis, since before the first of them. */
  bytes: number;
  keys: number;
  /** Medians in milliseconds, one at a time. */
  refresh: number;
  call: number;
  list: number;
  /** At many connections. */
  refreshesPerSecond: number;
  callsPerSecond: number;
};

export type Gatehouse = {
  agent: Agent;
  tokenEndpoint: string;
  /** Reads a page of the accounts. */
  listAccounts: () => Promise<void>;
};

const ONE_BY_ONE = 200;
const LISTS = 5;
const CONNECTIONS = 16;
const SECONDS = 3;

export async function measure(
  gatehouse: Gatehouse,
  redis: Redis,
  people: readonly Person[],
  empty: { bytes: number; keys: number },
): Promise<Omit<Measured, 'people'>> {
  const bytes = (await usedMemory(redis)) - empty.bytes;
  const keys = (await redis.dbsize()) - empty.keys;
  const refreshing = (person: Person) => refreshOne(gatehouse, person);
  const calling = (person: Person) => callOne(gatehouse, person);
  // Before the times, because it is a warm-up for them.
  const refreshesPerSecond = await perSecond(shuffled(people), refreshing);
  const holders = people.filter(({ accessToken }) => accessToken !== '');
  const callsPerSecond = await perSecond(shuffled(holders), calling);
  const chosen = shuffled(people).slice(0, ONE_BY_ONE);
  const refreshTime = await medianTime(chosen, refreshing);
  const callTime = await medianTime(chosen, calling);
  const list = await medianTime(Array(LISTS).fill(undefined), gatehouse.listAccounts);
  const times = { refresh: refreshTime, call: callTime, list };
  return { bytes, keys, ...times, refreshesPerSecond, callsPerSecond };
}

async function refreshOne({ agent, tokenEndpoint }: Gatehouse, person: Person): Promise<void> {
  const { clientId, resource } = person;
  const failure = await refresh({ agent, tokenEndpoint, clientId, resource }, person);
  if (failure !== undefined) throw new Error(failure);
}

function callOne({ agent }: Gatehouse, { resource: url, accessToken }: Person): Promise<void> {
  return call({ url, agent, token: accessToken });
}

/** Milliseconds. */
async function medianTime<Item>(
  items: readonly Item[],
  act: (item: Item) => Promise<void>,
): Promise<number> {
  const times: number[] = [];
  for (const item of items) {
    const begun = performance.now();
    await act(item);
    times.push(performance.now() - begun);
  }
  return median(times);
}

/** Each connection takes whoever waited longest; nobody is at two at once. */
async function perSecond(
  people: Person[],
  act: (person: Person) => Promise<void>,
): Promise<number> {
  const goesOn = forSeconds(SECONDS);
  let done = 0;
  const connection = async () => {
    for (let each = people.shift(); each && goesOn(); each = people.shift()) {
      await act(each);
      people.push(each);
      done += 1;
    }
  };
  const begun = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  return (done * 1000) / (performance.now() - begun);
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
