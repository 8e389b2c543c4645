import { once } from 'node:events';
import { Agent, type IncomingMessage, request, type RequestOptions } from 'node:http';
import { expect } from 'chai';
import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import type { GatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { startLoad } from '../support/scale-out/load.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';

const CLIENTS = 6;
const DRAIN_SECONDS = 1;

async function connectClients(system: Processes): Promise<Connection[]> {
  const connector = await createConnector(system);
  return Promise.all(Array.from({ length: CLIENTS }, () => connect(system, connector)));
}

describe('Restarts of three processes under load', () => {
  const processes = useProcesses(() => ({
    store: 'redis',
    file: { drain: `${DRAIN_SECONDS}s` },
  }));

  it('replacing the processes one by one fails no request', async () => {
    const load = startLoad(await connectClients(processes()));
    const connector = await createConnector(processes());
    for (const leaving of processes().running()) {
      const stopping = leaving.stop();
      do {
        const { link, accessToken } = await connect(processes(), connector);
        expect(await isAccepted(link, accessToken)).to.equal(true);
      } while (leaving.isRunning());
      expect(await stopping).to.equal(0);
      await processes().add();
      await load.waitForProgress();
    }
    await load.stop();
    expect(load.responses.filter(({ status }) => status !== 200)).to.deep.equal([]);
    expect(processes().responses.filter(({ status }) => status >= 500)).to.deep.equal([]);
  }).timeout(60_000);

  it('killing a process fails only the requests that it was processing', async () => {
    const load = startLoad(await connectClients(processes()));
    await load.waitForProgress();
    const [killed] = processes().running();
    await killed?.kill();
    const killedMs = performance.now();
    await load.waitForProgress();
    await processes().add();
    await load.waitForProgress();
    await load.stop();
    const lost = load.responses.filter(({ status }) => status !== 200);
    expect(
      lost.filter(({ status, startedMs }) => status !== 502 || startedMs > killedMs),
    ).to.deep.equal([]);
  }).timeout(40_000);
});

describe('A process behind a load balancer', () => {
  const processes = useProcesses(() => ({
    store: 'redis',
    count: 1,
    file: { drain: `${DRAIN_SECONDS}s` },
  }));
  const agent = new Agent({ keepAlive: true });
  after(() => agent.destroy());

  /** Connects without the balancer, which would choose another process. */
  const open = ({ ports }: GatehouseProcess, options: RequestOptions) => {
    const { host } = new URL(processes().auth);
    const address = { host: '127.0.0.1', port: ports.AUTH };
    return request({ ...address, ...options, headers: { host, ...options.headers } });
  };
  const answerTo = async (sent: ReturnType<typeof request>): Promise<IncomingMessage> => {
    const [answer] = await once(sent, 'response');
    answer.resume();
    await once(answer, 'end');
    return answer;
  };

  it('the keep-alive timeout is longer than the minute of common balancers', async () => {
    const [running] = processes().running();
    if (!running) throw new Error('no process runs');
    const { headers } = await answerTo(open(running, { path: '/livez' }).end());
    const [, seconds] = /timeout=(\d+)/.exec(String(headers['keep-alive'])) ?? [];
    expect(Number(seconds)).to.be.above(60);
  });

  it('a process that stops is not ready, still accepts requests during the drain time, and completes open requests', async () => {
    const { client, refreshToken = '' } = await connect(
      processes(),
      await createConnector(processes()),
    );
    const leaving = await processes().add();
    const document = { path: '/.well-known/oauth-authorization-server' };
    const ask = (options: RequestOptions) => answerTo(open(leaving, options).end());
    const kept = await ask({ ...document, agent });
    expect(kept.headers.connection).to.equal('keep-alive');

    const form = { grant_type: 'refresh_token', client_id: client.id, refresh_token: refreshToken };
    const slow = open(leaving, {
      method: 'POST',
      path: '/oauth/token',
      headers: { 'content-type': 'application/x-www-form-urlencoded', expect: '100-continue' },
    });
    // The error is thrown where the response is awaited.
    slow.on('error', () => undefined);
    slow.flushHeaders();
    await once(slow, 'continue');

    const stopping = leaving.stop();
    await until(
      'the process not to be ready',
      async () => (await ask({ path: '/readyz' })).statusCode === 503,
    );
    const last = await ask({ ...document, agent });
    expect(last.statusCode).to.equal(200);
    expect(last.headers.connection).to.equal('close');

    const isRefused = () =>
      ask(document).then(
        () => false,
        () => true,
      );
    await until('the process to refuse connections', isRefused);
    expect(leaving.isRunning()).to.equal(true);
    slow.end(new URLSearchParams(form).toString());
    expect((await answerTo(slow)).statusCode).to.equal(200);
    expect(await stopping).to.equal(0);
  });
});
