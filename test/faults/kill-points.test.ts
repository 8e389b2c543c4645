// The process is killed between any two steps of a code exchange and of a refresh: the client tries again elsewhere, and goes on.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { refreshAndCall } from '../support/faults/load.ts';
import {
  killAtCommand,
  startDisposableProcess,
  useDisposableProcesses,
} from '../support/faults/disposable-processes.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, refresh } from '../support/oauth.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

const SECRET = 'a root secret that all processes of this test share';
const COMMIT = 'evalsha grant';

describe('A process that is killed', () => {
  let redis: RedisServer;
  let place: Deployment;
  /** The process that is not killed. */
  let system: System;
  before(async () => {
    redis = await startRedis();
    place = await createDeployment({ storeAddress: redis.url });
    place.environment.GATEHOUSE_SECRET = SECRET;
    system = await startDeployment(place);
  });
  after(async () => {
    await system?.stop();
    await place?.release();
    await redis?.stop();
  });

  /** `prepare` says what to send, and how the client goes on when it got no answer; `reached` are the commands that were carried out. */
  async function killEverywhere(
    prepare: () => Promise<{
      form: Record<string, string>;
      goOn: (reached: string[]) => Promise<void>;
    }>,
  ): Promise<string[]> {
    const points: string[] = [];
    await useDisposableProcesses(
      () => startDisposableProcess(place.environment, redis),
      async (take) => {
        for (;;) {
          const victim = await take();
          const { form, goOn } = await prepare();
          const reached = await killAtCommand(victim, points.length, new URLSearchParams(form));
          if (reached === undefined) return;
          points.push(reached);
          await goOn(points);
        }
      },
    );
    return points;
  }

  it('in an exchange leaves a code that is good, or one that was used and a person who can connect again', async () => {
    const points = await killEverywhere(async () => {
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
      const goOn = async (reached: string[]) => {
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
      return { form, goOn };
    });
    expect(points).to.include.members(['nothing', 'get client', 'get grant', COMMIT]);
  }).timeout(90_000);

  it('in a refresh costs the client nothing', async () => {
    const points = await killEverywhere(async () => {
      const connection = await connect(system, await createConnector(system));
      const { server, client, link, refreshToken = '' } = connection;
      const form = {
        grant_type: 'refresh_token',
        client_id: client.id,
        refresh_token: refreshToken,
      };
      const goOn = async () => {
        const { status, body } = await refresh(server, client, refreshToken);
        expect(status).to.equal(200);
        expect(await isAccepted(link, body.access_token)).to.equal(true);
        expect((await refresh(server, client, body.refresh_token)).status).to.equal(200);
      };
      return { form, goOn };
    });
    expect(points).to.include.members(['nothing', 'get client', 'get grant', COMMIT]);
  }).timeout(90_000);
});
