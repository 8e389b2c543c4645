// Redis stalls at each store command of a request in turn, and executes the command later.
import { expect } from 'chai';
import { createConnector, readAudit } from '../support/management-api.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { revoke } from '../support/faults/load.ts';
import { type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

const MAX_MS = 1500;
const COMMIT = 'evalsha grant';
const CACHE_SECONDS = 10;

/** `send` resolves with the status. `retry` is what the client does when Redis works again; `late` is the stalled command. */
type Request = {
  send: () => Promise<number>;
  retry: (status: number, late: string) => Promise<void>;
};

describe('A request during which Redis stalls', () => {
  let redis: RedisServer;
  let proxy: RedisProxy;
  let system: System;
  beforeEach(async () => {
    redis = await startRedis();
    proxy = await startRedisProxy(redis);
    system = await startSystem({ storeAddress: proxy.url });
  });
  afterEach(async () => {
    restoreClock();
    await system?.stop();
    await proxy?.close();
    await redis?.stop();
  });

  /** Stalls the first command of the first request, the second of the second, and so on. Resolves with the stalled commands. */
  async function stallEachCommand(prepare: () => Promise<Request>): Promise<string[]> {
    const stalled: string[] = [];
    for (;;) {
      const { send, retry } = await prepare();
      let number = 0;
      let late: string | undefined;
      proxy.setRule(({ name, kind }) => {
        if (!kind || ++number !== stalled.length + 1) return 'pass';
        late = `${name} ${kind}`;
        return 'hold';
      });
      const began = performance.now();
      const status = await send();
      expect(performance.now() - began, late).to.be.below(MAX_MS);
      proxy.release();
      if (late === undefined) {
        expect(status).to.equal(200);
        return stalled;
      }
      expect(status, late).to.be.oneOf([200, 503]);
      stalled.push(late);
      const ready = async () => (await fetch(`${system.auth}/readyz`)).ok;
      await until('Redis to work again', ready);
      await retry(status, late);
    }
  }

  it('after a stalled refresh the client refreshes with the token it has', async () => {
    const stalled = await stallEachCommand(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, refreshToken } = connection;
      return {
        send: async () => (await refresh(server, client, refreshToken)).status,
        async retry() {
          const { body } = await refresh(server, client, refreshToken);
          expect(await isAccepted(link, body.access_token)).to.equal(true);
          expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
        },
      };
    });
    expect(stalled).to.include(COMMIT);
  }).timeout(40_000);

  it('after a stalled exchange the code still works, unless the late command used it', async () => {
    const stalled = await stallEachCommand(async () => {
      const code = await obtainCode(system, await createConnector(system));
      const { server, client } = code;
      let refreshToken: string | undefined;
      return {
        async send() {
          const { status, body } = await redeem(code);
          refreshToken = body.refresh_token;
          return status;
        },
        async retry(status, late) {
          if (status === 503) {
            const { body } = await redeem(code);
            // The late command used the code after the client got 503.
            if (late === COMMIT) expect(body.error).to.equal('invalid_grant');
            if (late === COMMIT) return;
            refreshToken = body.refresh_token;
          }
          expect((await refresh(server, client, refreshToken)).status).to.equal(200);
        },
      };
    });
    expect(stalled).to.include(COMMIT);
  }).timeout(40_000);

  it('a repeated revocation takes effect after a stalled one, and is recorded once at most', async () => {
    let revoked = 0;
    const stalled = await stallEachCommand(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, accessToken, refreshToken } = connection;
      expect(await isAccepted(link, accessToken)).to.equal(true);
      revoked += 1;
      return {
        send: async () => ((await revoke(connection)) ? 200 : 503),
        async retry() {
          expect(await revoke(connection)).to.equal(true);
          expect((await refresh(server, client, refreshToken)).body.error).to.equal(
            'invalid_grant',
          );
          advanceClock(CACHE_SECONDS);
          expect(await isAccepted(link, accessToken)).to.equal(false);
        },
      };
    });
    expect(stalled).to.include(COMMIT).and.to.include('publish channel');
    const ended = (await readAudit(system)).filter(({ event }) => event === 'grant_ended');
    // A late commit ended the grant after the 503, and the repetition found nothing to record.
    const unrecorded = stalled.filter((late) => late === COMMIT).length;
    expect(ended).to.have.length(revoked - unrecorded);
  }).timeout(60_000);
});
