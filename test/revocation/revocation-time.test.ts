import { expect } from 'chai';
import { Redis } from 'ioredis';
import { revokeConnector } from '../../src/links/connectors.ts';
import { revokeMintedToken } from '../../src/links/minted-tokens.ts';
import type { Store } from '../../src/store/store.ts';
import { mint } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { type AccessPaths, prepareAccessPaths, ACCESS_PATHS } from '../support/access-paths.ts';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { openSystemStore } from '../support/system-store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { multiplyStoreTimeouts } from '../support/scale-out/patient-timeouts.ts';
import { SDKS, type SdkClient } from '../support/sdk.ts';
import { startSystem, type System } from '../support/system.ts';
import { lastSuccesses, tryAll, tryAt, type Attempt } from './attempts.ts';

const CACHE_SECONDS = 10;
const MOMENTS = [0, 8.9, 10.1, 59];
const MOMENTS_WITHOUT_STORE = [0, 30, 44, 46, 59];

describe('A revocation', () => {
  let redis: RedisServer;
  let proxy: RedisProxy;
  let system: System;
  /** Another process, which reaches the database without the proxy. */
  let directStore: Store;
  let raw: Redis;
  let restoreTimeouts: (() => void) | undefined;
  before(async () => {
    // The database is reached through a proxy in this process, so that a busy moment delays each reply for several turns of the event loop.
    restoreTimeouts = multiplyStoreTimeouts(4);
    redis = await startRedis();
    proxy = await startRedisProxy(redis);
    system = await startSystem({ storeAddress: proxy.url });
    ({ store: directStore } = await openSystemStore({ ...system, storeAddress: redis.url }));
    raw = new Redis(redis.url);
  });
  afterEach(restoreClock);
  after(async () => {
    restoreTimeouts?.();
    raw?.disconnect();
    await directStore?.close();
    await system?.stop();
    await proxy?.close();
    await redis?.stop();
  });

  async function connected(moments: readonly number[] = MOMENTS) {
    const connector = await createConnector(system);
    const minted = await mint(system);
    const every = await prepareAccessPaths(system, connector, minted.token, moments.length + 2);
    const sdks = await connectSdks(connector.link);
    // The clock stops here, so that records are cached at exactly this time.
    const start = Date.now() / 1000 + CACHE_SECONDS;
    const before = await tryAt(every, start, [0]);
    expect(before.filter(({ isSuccess }) => !isSuccess)).to.deep.equal([]);
    const revoke = async () => {
      await revokeConnector(directStore, connector.id, Date.now() / 1000);
      await revokeMintedToken(directStore, minted.id);
    };
    return { every, sdks, revoke, start };
  }

  async function connectSdks(link: string): Promise<SdkClient[]> {
    const clients = SDKS.map(({ connect }) =>
      connect(link, { browser: openBrowser(system.origins), method: 'none' }),
    );
    return Promise.all(clients);
  }

  /** Expects that calls of the SDK clients fail with `message` and open no browser. */
  async function expectNoBrowser(clients: readonly SdkClient[], message: RegExp): Promise<void> {
    for (const client of clients) {
      const failure = await client.callTool('club_overview').then(
        () => new Error('the call succeeded'),
        (error: unknown) => error,
      );
      expect(String(failure)).to.match(message);
      expect(client.signIns()).to.equal(1);
    }
  }

  async function expectAllRefused(every: AccessPaths): Promise<void> {
    expectRefused(await tryAll(every, 0));
  }

  function expectRefused(tried: readonly Attempt[]): void {
    const statuses = { authorize: 400, approve: 400, exchange: 400, refresh: 400, call: 410 };
    for (const { path, status, detail, at } of tried) {
      expect(status, `${path} after ${at} s: ${detail}`).to.equal(
        { ...statuses, minted: 401 }[path],
      );
      if (path === 'exchange' || path === 'refresh') expect(detail).to.equal('invalid_grant');
      if (path === 'call') expect(detail).to.include('ask for a fresh one');
    }
  }

  it('CNX-01 a revocation takes effect on every path with its message, before cached records expire', async () => {
    const { every, sdks, revoke, start } = await connected();
    await revoke();
    await until('a call to be refused', async () => (await every.call()).status === 410);
    await until('a minted token to be refused', async () => (await every.minted()).status === 401);
    expectRefused(await tryAt(every, start, MOMENTS));
    await expectNoBrowser(sdks, /410|fresh one/);
  });

  it('CNX-07 SDK clients get 410 for an expired link and open no browser', async () => {
    const expiresAt = new Date(Date.now() + 600_000).toISOString();
    const { link } = await createConnector(system, { expiresAt });
    const sdks = await connectSdks(link);
    advanceClock(601);
    await expectNoBrowser(sdks, /410|fresh one/);
  });

  it('CNX-02 a revocation takes effect on every path within 10 s when messages are lost', async () => {
    const { every, sdks, revoke, start } = await connected();
    await raw.call('ACL', 'SETUSER', 'default', 'resetchannels');
    await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    try {
      await tryAll(every, 0);
      await revoke();
      const tried = await tryAt(every, start, MOMENTS);
      const last = lastSuccesses(tried);
      for (const path of ACCESS_PATHS) expect(last[path] ?? 0, path).to.be.at.most(10);
      // Proves that the messages were lost.
      expect([last.call, last.minted]).to.deep.equal([8.9, 8.9]);
      expectRefused(tried.filter(({ at }) => at > 10));
      await expectNoBrowser(sdks, /410|fresh one/);
    } finally {
      await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
    }
  });

  it('CNX-02 without the store every path gets 503 after 45 s at most, and recovers with the store', async () => {
    const { every, sdks, revoke, start } = await connected(MOMENTS_WITHOUT_STORE);
    proxy.disconnect();
    await revoke();
    const tried = await tryAt(every, start, MOMENTS_WITHOUT_STORE);
    const last = lastSuccesses(tried);
    for (const path of ACCESS_PATHS) expect(last[path] ?? 0, path).to.be.at.most(45);
    // Proves that calls go on without the store. On a busy machine, the last one may get 503 already.
    for (const path of ['call', 'minted'] as const) expect(last[path], path).to.be.at.least(30);
    const refused = tried.filter(({ isSuccess }) => !isSuccess);
    for (const { path, status, detail, at } of refused) {
      expect(status, `${path} after ${at} s: ${detail}`).to.equal(503);
      if (path === 'exchange' || path === 'refresh')
        expect(detail).to.equal('temporarily_unavailable');
    }
    await expectNoBrowser(sdks, /503|moment/);
    proxy.allowConnections();
    await until('a call to get 410', async () => (await every.call()).status === 410);
    await expectAllRefused(every);
    await expectNoBrowser(sdks, /410|fresh one/);
  });
});
