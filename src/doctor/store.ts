// The store from inside: reached, written with this root secret, and set up to keep what it is given.
import { constants } from 'node:fs';
import { access, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Settings } from '../settings/settings.ts';
import {
  closeRedis,
  connectRedis,
  type RedisAddress,
  type RedisClient,
} from '../store/redis-client.ts';
import { canDecryptStore } from '../store/name-key.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, orOk, wordsOf } from './finding.ts';
import { mastersOf, redisFindings } from './redis.ts';

export async function storeFindings(deployment: Deployment): Promise<Finding[]> {
  const settings = settingsOf(deployment);
  const { store } = settings;
  if (store.kind === 'sqlite') return fileFindings(store.file);
  const client = await connectRedis(store, undefined).catch((error: unknown) => error as Error);
  if (client instanceof Error) return [unreachable(store, client)];
  try {
    const servers = mastersOf(client);
    const found = await Promise.all(servers.map((server) => redisFindings(server, store)));
    return [
      ...(await secretFindings(client, settings)),
      ...addressFindings(store),
      ...found.flat(),
    ];
  } finally {
    await closeRedis(client);
  }
}

/** Without user name and password. */
export function placeOf(address: RedisAddress): string {
  if (address.kind === 'redis') return new URL(address.url).host;
  return address.nodes.map(({ host, port }) => `${host}:${port}`).join(',');
}

function unreachable(store: RedisAddress, { message }: Error): Finding {
  return wordsOf('store', placeOf(store)).problem({
    what: `Redis does not answer from here: ${message}`,
    why: 'without its store Gatehouse asks everybody to try again',
    remedy:
      'check GATEHOUSE_STORE, the password in it, that Redis runs, and that this machine may connect to it',
  });
}

async function secretFindings(client: RedisClient, settings: Settings): Promise<Finding[]> {
  const words = wordsOf('secret', 'GATEHOUSE_SECRET');
  const opens = await canDecryptStore((name) => client.getBuffer(name), settings);
  if (opens === undefined)
    return [words.unknown('the store is empty: no Gatehouse has started with it yet')];
  if (opens) return [words.ok('the store was written with this root secret')];
  return [
    words.problem({
      what: 'the store was written with another root secret',
      why: 'no process starts with this one, and nothing in the store can be read',
      remedy: 'use the secret that the store was made with, or another store',
    }),
  ];
}

/** What is on the way to Redis is encrypted, but who can write there can end every connection. */
function addressFindings(store: RedisAddress): Finding[] {
  const { host, isOpen } = accessOf(store);
  const isHere = /^(localhost|127\..*|::1|\[::1\])$/.test(host);
  if (!isOpen || isHere) return [];
  return [
    wordsOf('store', placeOf(store)).warning({
      what: 'Redis takes commands without a password',
      why: 'who reaches it can delete everything, and so disconnect everybody',
      remedy: 'give Redis a user with a password, and put both into GATEHOUSE_STORE',
    }),
  ];
}

function accessOf(store: RedisAddress): { host: string; isOpen: boolean } {
  if (store.kind !== 'redis') {
    return { host: store.nodes[0]?.host ?? '', isOpen: store.password === undefined };
  }
  const { hostname, password } = new URL(store.url);
  return { host: hostname, isOpen: password === '' };
}

const LEAST_FREE = 0.1;

async function fileFindings(file: string): Promise<Finding[]> {
  const words = wordsOf('store', file);
  try {
    await access(file, constants.R_OK | constants.W_OK);
  } catch (error) {
    return [
      words.problem({
        what: `the file of the store cannot be read and written here (${(error as NodeJS.ErrnoException).code})`,
        why: 'this is not the machine or user that Gatehouse runs as, or it cannot start',
        remedy: 'run this as the user of Gatehouse, with its settings; check dataDir and store',
      }),
    ];
  }
  const { bavail, blocks } = await statfs(dirname(file));
  const free = bavail / blocks;
  const share = `${Math.round(free * 100)} % of the disk`;
  if (free >= LEAST_FREE) return orOk([], words.ok(`the file is there, and ${share} is free`));
  return [
    words.warning({
      what: `only ${share} is free`,
      why: 'when it is full nobody can connect any more, or refresh a token',
      remedy: 'make room, or move the data directory',
    }),
  ];
}
