// Redis stalls in the middle of a request, whichever of its commands that is, and carries it out later: answered in time, and nobody loses anything.
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
import { until } from '../store/condition.ts';

const DEADLINE_MS = 1500;
const COMMIT = 'evalsha grant';
/** Seconds after which a resource server that heard nothing reads again. */
const READ_AGAIN = 10;

/** `send` resolves to the status; `goOn` is what the client does when Redis works again, knowing that status and what was late. */
type Request = {
  send: () => Promise<number>;
  goOn: (status: number, late: string) => Promise<void>;
};

describe('When Redis stalls in the middle of', () => {
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

  /** Once for each command, the first time for the first; ends with a request that needed fewer. Resolves to what was late. */
  async function stallEverywhere(prepare: () => Promise<Request>): Promise<string[]> {
    const stalled: string[] = [];
    for (;;) {
      const { send, goOn } = await prepare();
      let number = 0;
      let late: string | undefined;
      proxy.setRule(({ name, kind }) => {
        if (!kind || ++number !== stalled.length + 1) return 'pass';
        late = `${name} ${kind}`;
        return 'hold';
      });
      const began = performance.now();
      const status = await send();
      expect(performance.now() - began, late).to.be.below(DEADLINE_MS);
      proxy.release();
      if (late === undefined) {
        expect(status).to.equal(200);
        return stalled;
      }
      expect(status, late).to.be.oneOf([200, 503]);
      stalled.push(late);
      const ready = async () => (await fetch(`${system.auth}/readyz`)).ok;
      await until('Redis works again', ready);
      await goOn(status, late);
    }
  }

  it('a refresh, the client goes on with the token it has', async () => {
    const stalled = await stallEverywhere(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, refreshToken } = connection;
      return {
        send: async () => (await refresh(server, client, refreshToken)).status,
        async goOn() {
          const { body } = await refresh(server, client, refreshToken);
          expect(await isAccepted(link, body.access_token)).to.equal(true);
          expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
        },
      };
    });
    expect(stalled).to.include(COMMIT);
  }).timeout(40_000);

  it('an exchange, the code is good until it was used, and used once', async () => {
    const stalled = await stallEverywhere(async () => {
      const code = await obtainCode(system, await createConnector(system));
      const { server, client } = code;
      let refreshToken: string | undefined;
      return {
        async send() {
          const { status, body } = await redeem(code);
          refreshToken = body.refresh_token;
          return status;
        },
        async goOn(status, late) {
          if (status === 503) {
            const { body } = await redeem(code);
            // What used it up was late, and came after the client was told to wait.
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

  it('a revocation, it is carried out when asked for again, and never recorded twice', async () => {
    let revoked = 0;
    const stalled = await stallEverywhere(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, accessToken, refreshToken } = connection;
      expect(await isAccepted(link, accessToken)).to.equal(true);
      revoked += 1;
      return {
        send: async () => ((await revoke(connection)) ? 200 : 503),
        async goOn() {
          expect(await revoke(connection)).to.equal(true);
          expect((await refresh(server, client, refreshToken)).body.error).to.equal(
            'invalid_grant',
          );
          advanceClock(READ_AGAIN);
          expect(await isAccepted(link, accessToken)).to.equal(false);
        },
      };
    });
    expect(stalled).to.include(COMMIT).and.to.include('publish channel');
    const ended = (await readAudit(system)).filter(({ event }) => event === 'grant_ended');
    // Who was told to wait did not know that it was carried out, and who asked again found nothing to record.
    const unnoticed = stalled.filter((late) => late === COMMIT).length;
    expect(ended).to.have.length(revoked - unnoticed);
  }).timeout(60_000);
});
