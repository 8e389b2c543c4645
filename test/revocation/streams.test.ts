import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { Redis } from 'ioredis';
import { revokeConnector } from '../../src/links/connectors.ts';
import type { Store } from '../../src/store/store.ts';
import { mint, revoke as revokeMinted } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import * as administrator from '../support/management-api.ts';
import type { Person } from '../support/browser.ts';
import { advanceClock, freezeClockAt, restoreClock } from '../support/clock.ts';
import { connect, type Connection } from '../support/connection.ts';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { callTool } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { startSystem, type System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { startUpstreamV1 } from '../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';
import { openListening, openSessionStreams, type Streams } from './open-streams.ts';

const ACCESS_TOKEN_SECONDS = 3600;

const KINDS = {
  'streams of a session': [startUpstreamV1, openSessionStreams],
  'a subscription': [startUpstreamV2, openListening],
} as const;

for (const [kind, [openUpstream, openStreams]] of Object.entries(KINDS)) {
  describe(`Open streams: ${kind}`, () => {
    let redis: RedisServer;
    let proxy: RedisProxy;
    let upstream: Upstream;
    let system: System;
    let elsewhere: Store;
    let raw: Redis;
    before(async () => {
      redis = await startRedis();
      raw = new Redis(redis.url);
      proxy = await startRedisProxy(redis);
      upstream = await openUpstream();
      const file = { resourceServer: { upstream: { url: upstream.url, tools: DECLARED } } };
      system = await startSystem({ storeAddress: proxy.url, file });
      upstream.trustIssuer(system.auth);
      ({ store: elsewhere } = await openSystemStore({ ...system, storeAddress: redis.url }));
    });
    afterEach(() => {
      restoreClock();
      upstream.release();
    });
    after(async () => {
      raw?.disconnect();
      await elsewhere?.close();
      await system?.stop();
      await upstream?.close();
      await proxy?.close();
      await redis?.stop();
    });

    async function startStreams(person: Person = 'ada') {
      const connector = await administrator.createConnector(system);
      const connection = await connect(system, connector, { person });
      const streams = await openStreams(connector.link, connection.accessToken);
      return { connector, connection, streams };
    }

    /** Stops the clock, so that no cached record expires until a test moves it on. */
    function stopClock(): number {
      const now = Date.now() / 1000;
      freezeClockAt(now);
      return now;
    }

    async function expectEnd({ areClosed }: Streams): Promise<void> {
      await until('the streams to end', areClosed);
      // The streams between Gatehouse and the upstream end too.
      await Promise.all(upstream.received.map(({ closed }) => closed));
    }

    const revoking = (held: 'accessToken' | 'refreshToken') => (connection: Connection) =>
      postToken(connection.server.revocation_endpoint, connection.client, connection[held]);

    const ENDS: Record<string, [(connection: Connection, id: string) => unknown, status: number]> =
      {
        'the link is paused': [
          (_, id) =>
            administrator.requestManagement(system, 'PATCH', `/connectors/${id}`, { paused: true }),
          200,
        ],
        'the link is revoked': [(_, id) => administrator.revokeConnector(system, id), 410],
        'the grant ends': [revoking('refreshToken'), 401],
        'the token is revoked': [revoking('accessToken'), 401],
        'the account is disabled': [
          ({ accessToken }) =>
            administrator.changeAccount(system, String(decodeJwt(accessToken).sub), 'disable'),
          401,
        ],
      };
    for (const [what, [end, status]] of Object.entries(ENDS)) {
      it(`RSV-10 ${kind} end at once when ${what}, and a new call gets ${status}`, async () => {
        // A disabled account cannot connect in the tests that follow.
        const person = what.includes('account') ? 'grace' : 'ada';
        stopClock();
        const { connector, connection, streams } = await startStreams(person);
        expect(streams.areClosed()).to.equal(false);
        await end(connection, connector.id);
        await expectEnd(streams);
        const answer = await callTool(connector.link, connection.accessToken, 'whoami');
        expect(answer.status).to.equal(status);
      });
    }

    it(`CHG-03 ${kind} end at once when the level of the link is lowered, and stay open when it is raised`, async () => {
      stopClock();
      const { connector, streams } = await startStreams();
      const change = (level: string) =>
        administrator.requestManagement(system, 'PATCH', `/connectors/${connector.id}`, { level });
      await change('full');
      const call = await startStreams();
      expect(streams.areClosed()).to.equal(false);
      await change('analytics');
      await until('the streams to end', streams.areClosed);
      await call.streams.abort();
    });

    it(`RSV-10 ${kind} end at once when their minted token is revoked`, async () => {
      stopClock();
      const minted = await mint(system);
      const streams = await openStreams(`${system.resource}/mcp`, minted.token);
      expect(streams.areClosed()).to.equal(false);
      await revokeMinted(system, minted.id);
      await expectEnd(streams);
    });

    it(`RSV-10 ${kind} end when their token expires`, async () => {
      const { streams } = await startStreams();
      expect(streams.areClosed()).to.equal(false);
      advanceClock(ACCESS_TOKEN_SECONDS + 1);
      await expectEnd(streams);
    });

    it(`RSV-10 ${kind} stay open while another connector is revoked`, async () => {
      const { streams } = await startStreams();
      const { id } = await administrator.createConnector(system);
      advanceClock(ACCESS_TOKEN_SECONDS - 60);
      await administrator.revokeConnector(system, id);
      const call = await startStreams();
      expect(streams.areClosed()).to.equal(false);
      for (const each of [streams, call.streams]) await each.abort();
    });

    it(`RSV-10 ${kind} end within 10 s of a revocation when messages are lost`, async () => {
      const now = stopClock();
      const { connector, streams } = await startStreams();
      await raw.call('ACL', 'SETUSER', 'default', 'resetchannels');
      await raw.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await revokeConnector(elsewhere, connector.id, Date.now() / 1000);
      expect(streams.areClosed()).to.equal(false);
      freezeClockAt(now + 10);
      await expectEnd(streams);
      await raw.call('ACL', 'SETUSER', 'default', 'allchannels');
    });

    it(`RSV-10 ${kind} end 45 s after the store is cut off, and calls get 503`, async () => {
      const now = stopClock();
      const { connector, connection, streams } = await startStreams();
      proxy.disconnect();
      freezeClockAt(now + 30);
      expect(streams.areClosed()).to.equal(false);
      freezeClockAt(now + 45);
      await expectEnd(streams);
      const { status, headers } = await callTool(connector.link, connection.accessToken, 'whoami');
      expect([status, headers.has('www-authenticate')]).to.deep.equal([503, false]);
      proxy.allowConnections();
      await until('calls to succeed again', async () => {
        const answer = await callTool(connector.link, connection.accessToken, 'whoami');
        return ![401, 410, 503].includes(answer.status);
      });
    });
  });
}
