import { openStore, type OpenedStore } from '../../src/store/open.ts';
import { meetsDeadline } from '../support/deadlines.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { assertUnavailable } from './availability.ts';

const options = { secret: 'a root secret for the tests of the store', dataDir: '/nowhere' };

describe('The time that a request waits for a store on Redis', () => {
  let server: RedisServer;
  let store: OpenedStore;
  beforeEach(async () => {
    server = await startRedis();
    store = await openStore({ kind: 'redis', url: server.url }, options);
  });
  afterEach(async () => {
    server?.kill('SIGCONT');
    await store?.close();
    await server?.stop();
  });

  it('every verb fails within 1.5 s while the server is stalled', async () => {
    await meetsDeadline('storeOutage', async () => {
      server.kill('SIGCONT');
      await store.ping();
      server.kill('SIGSTOP');
      await assertUnavailable(store);
    });
  });

  it('a counter continues in memory without delay while the server is stalled', async () => {
    const count = store.openCounter('stalled', 60);
    const stall = async () => {
      server.kill('SIGCONT');
      await store.ping();
      await count('somebody');
      server.kill('SIGSTOP');
    };
    // Once the store knows that Redis does not answer, it counts in memory at once.
    await meetsDeadline('countOutage', () => count('somebody'), stall);
  });

  it('every verb fails at once while the server is down', async () => {
    await server.stop();
    await meetsDeadline('storeDown', () => assertUnavailable(store));
  });
});
