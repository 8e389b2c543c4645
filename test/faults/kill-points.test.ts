// Kills a server between any two store commands of a request. The client retries at another one.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { refreshAndCall } from '../support/faults/load.ts';
import {
  type Disposable,
  killAtCommand,
  startDisposableProcess,
  startDisposableSystem,
} from '../support/faults/disposable-processes.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, refresh } from '../support/oauth.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

const SECRET = 'a root secret that all processes of this test share';
const COMMIT = 'evalsha grant';
const TIMEOUT_MS = SOAK ? 600_000 : 60_000;

/** `retry` is what the client does afterwards. `reached` are the commands that were executed. */
type Attempt = { form: Record<string, string>; retry: (reached: string[]) => Promise<void> };

describe('A process killed during a token request', () => {
  let redis: RedisServer;
  let deployment: Deployment;
  /** Runs in the process of the test, which is not killed. */
  let system: System;
  const closing: Promise<void>[] = [];
  before(async () => {
    redis = await startRedis();
    deployment = await createDeployment({ storeAddress: redis.url });
    deployment.environment.GATEHOUSE_SECRET = SECRET;
    system = await startDeployment(deployment);
  });
  after(async () => {
    await Promise.all(closing);
    await system?.stop();
    await deployment?.release();
    await redis?.stop();
  });

  const startProcess = () => startDisposableProcess(deployment.environment, redis);
  /** Every command of the long run ends a process of its own. */
  const startVictim = () =>
    SOAK ? startProcess() : startDisposableSystem(deployment.environment, redis);

  /** Closes the victim in the background, because one that lost Redis takes a second. */
  async function withVictim<R>(
    start: () => Promise<Disposable>,
    use: (victim: Disposable) => Promise<R>,
  ): Promise<R> {
    const victim = await start();
    try {
      return await use(victim);
    } finally {
      closing.push(victim.close());
    }
  }

  /** Kills a server at each store command of a request. Resolves to the commands that were executed. */
  async function killAtEachCommand(
    prepare: () => Promise<Attempt>,
    atCommit?: 'kills a process at the commit',
  ): Promise<string[]> {
    const points: string[] = [];
    const killAt = async (point: number | typeof COMMIT, victim: Disposable) => {
      const { form, retry } = await prepare();
      const reached = await killAtCommand(victim, point, new URLSearchParams(form));
      if (reached === undefined) return undefined;
      if (typeof point === 'number') points[point] = reached;
      await retry(points.slice(0, points.lastIndexOf(reached) + 1));
      return reached;
    };
    while (await withVictim(startVictim, (victim) => killAt(points.length, victim)));
    if (atCommit) {
      // Another process may read in another order before it.
      const killed = (victim: Disposable) => killAt(COMMIT, victim);
      expect(await withVictim(startProcess, killed)).to.equal(COMMIT);
    }
    return points;
  }

  it('after a kill during an exchange the code still works, or it was used and the person can connect again', async () => {
    const points = await killAtEachCommand(async () => {
      const connector = await createConnector(system, { maxUses: 1 });
      const { server } = await discover(connector.link);
      const as = { client: await registerClient(server), browser: openBrowser(system.origins) };
      const code = await obtainCode(system, connector, { as });
      const form = {
        grant_type: 'authorization_code',
        client_id: code.client.id,
        code: code.callback.searchParams.get('code') ?? '',
        redirect_uri: code.client.redirectUri,
        code_verifier: code.verifier,
      };
      const retry = async (reached: string[]) => {
        const { body } = await redeem(code);
        if (reached.includes(COMMIT)) {
          expect(body.error).to.equal('invalid_grant');
          await refreshAndCall(await connect(system, connector, { as }));
        } else {
          expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
          const { status } = await refresh(server, as.client, body.refresh_token);
          expect(status).to.equal(200);
        }
      };
      return { form, retry };
    }, 'kills a process at the commit');
    expect(points).to.include.members(['nothing', 'get client', 'get grant', COMMIT]);
    recordSoak({ what: 'processes killed at each command of a code exchange', held: held(points) });
  }).timeout(TIMEOUT_MS);

  it('after a kill during a refresh the client refreshes with the token it has', async () => {
    const points = await killAtEachCommand(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, refreshToken = '' } = connection;
      const form = {
        grant_type: 'refresh_token',
        client_id: client.id,
        refresh_token: refreshToken,
      };
      const retry = async () => {
        const { status, body } = await refresh(server, client, refreshToken);
        expect(status).to.equal(200);
        expect(await isAccepted(link, body.access_token)).to.equal(true);
        expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
      };
      return { form, retry };
    });
    expect(points).to.include.members(['nothing', 'get client', 'get grant', COMMIT]);
    recordSoak({ what: 'processes killed at each command of a refresh', held: held(points) });
  }).timeout(TIMEOUT_MS);
});

function held(points: string[]): string {
  return `${points.length} processes killed, no grant lost`;
}
