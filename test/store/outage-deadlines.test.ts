import { openStore, type OpenedStore } from '../../src/store/open.ts';
import { meetsDeadline, outcomeOf } from '../support/deadlines.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { assertUnavailable } from './availability.ts';

const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };

type Opened = { server: RedisServer; store: OpenedStore };

async function everyVerb({ server, store }: Opened): Promise<void> {
  await meetsDeadline('storeOutage', async () => {
    server.kill('SIGCONT');
    await store.ping();
    server.kill('SIGSTOP');
    await assertUnavailable(store);
  });
}

async function counter({ server, store }: Opened): Promise<void> {
  const count = store.openCounter('stalled', 60);
  const stall = async () => {
    server.kill('SIGCONT');
    await store.ping();
    await count('somebody');
    server.kill('SIGSTOP');
  };
  // Once the store knows that Redis does not answer, it counts in memory at once.
  await meetsDeadline('countOutage', () => count('somebody'), stall);
}

async function stoppedServer({ server, store }: Opened): Promise<void> {
  await server.stop();
  await meetsDeadline('storeDown', () => assertUnavailable(store));
}

const OUTAGES = {
  'every verb fails within 1.5 s while the server is stalled': everyVerb,
  'a counter continues in memory without delay while the server is stalled': counter,
  'every verb fails at once while the server is down': stoppedServer,
};

describe('The time that a request waits for a store on Redis', () => {
  const opened: Opened[] = [];
  const measured = new Map<string, Promise<void>>();

  // The outages happen at the same time, because most of their time is spent waiting.
  before(async () => {
    const ready: [string, () => Promise<void>][] = [];
    for (const [title, measure] of Object.entries(OUTAGES)) {
      const server = await startRedis();
      const store = await openStore({ kind: 'redis', url: server.url }, options);
      opened.push({ server, store });
      ready.push([title, () => measure({ server, store })]);
    }
    for (const [title, measure] of ready) measured.set(title, measure());
    await Promise.allSettled(measured.values());
  });
  after(async () => {
    for (const { server, store } of opened) {
      server.kill('SIGCONT');
      await store.close();
      await server.stop();
    }
  });

  for (const title of Object.keys(OUTAGES)) it(title, () => outcomeOf(measured, title));
});
