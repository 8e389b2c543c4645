import { once } from 'node:events';
import { Agent, type IncomingMessage, request, type RequestOptions } from 'node:http';
import { expect } from 'chai';
import { openListening } from '../revocation/open-streams.ts';
import { until } from '../support/until.ts';
import { createConnector, showConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { refresh } from '../support/oauth.ts';
import type { GatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { connectClients, type LoadResponse, startLoad } from '../support/scale-out/load.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { hasConnections } from '../support/scale-out/round-robin.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';
import { countApproved } from './use-limits.ts';

const PROCESSES = 2;
const CLIENTS = 2;
const LISTENERS = 2;
const TOOL = 'whoami';
/** Longer than a balancer needs to see that a process is not ready. */
const DRAIN_SECONDS = 3;

/** A client that opens a stream of notifications again whenever it ends. */
async function startListener({ link, accessToken }: Connection) {
  let stream = await openListening(link, accessToken);
  let count = 1;
  let isStopped = false;
  const work = async () => {
    for (;;) {
      await until('the stream to end', () => isStopped || stream.areClosed(), 60);
      if (isStopped) return stream.abort();
      expect(stream.areEnded(), 'the stream ended properly').to.equal(true);
      stream = await openListening(link, accessToken);
      count += 1;
    }
  };
  const working = work();
  working.catch(() => undefined);
  return {
    /** The number of streams so far. */
    count: () => count,
    /** Rejects if a stream was cut off. */
    stop() {
      isStopped = true;
      return working;
    },
  };
}

describe('Restarts of several processes', () => {
  let upstream: Upstream;
  const processes = useProcesses(async () => {
    upstream = await startFastUpstream();
    const resourceServer = { upstream: { url: upstream.url, tools: DECLARED } };
    return {
      store: 'redis',
      count: PROCESSES,
      file: { drain: `${DRAIN_SECONDS}s`, resourceServer },
    };
  });
  before(() => upstream.trustIssuer(processes().auth));
  after(() => upstream?.close());

  describe('when one process is replaced and then the other one killed under load', () => {
    let limited: { id: string; link: string };
    let ada: Connection;
    let code: number | null;
    let streams: number;
    let whileReplaced: LoadResponse[];
    let balanced: Processes['responses'];
    let whileKilled: LoadResponse[];
    let killedMs: number;
    before(async () => {
      limited = await createConnector(processes(), { maxUses: 2 });
      ada = await connect(processes(), limited);
      ada.refreshToken = (
        await refresh(ada.server, ada.client, ada.refreshToken)
      ).body.refresh_token;
      const connector = await createConnector(processes());
      const working = await connectClients(processes(), connector, CLIENTS);
      const listening = await connectClients(processes(), connector, LISTENERS);
      const listeners = await Promise.all(listening.map(startListener));
      const [first, second] = processes().running();
      if (!first || !second) throw new Error('two processes must run');
      // The one that has a stream.
      const last = processes().responses.findLast(({ host }) => host === 'RESOURCE');
      const [leaving, killed] =
        first.ports.RESOURCE === last?.by ? [first, second] : [second, first];

      const load = startLoad(working, TOOL);
      const stopping = leaving.stop();
      await connect(processes(), connector);
      code = await stopping;
      await processes().add();
      await load.waitForProgress();
      for (const listener of listeners) await listener.stop();
      streams = listeners.reduce((sum, { count }) => sum + count(), 0);
      whileReplaced = [...load.responses];
      balanced = [...processes().responses];

      await killed.kill();
      const ports = Object.values(killed.ports);
      await until('the balancer to lose its connections', () => !ports.some(hasConnections));
      killedMs = performance.now();
      await load.waitForProgress();
      await load.stop();
      whileKilled = load.responses.slice(whileReplaced.length);
    });

    it('replacing a process fails no request', () => {
      expect(code).to.equal(0);
      expect(whileReplaced).to.not.have.length(0);
      expect(whileReplaced.filter(({ status }) => status !== 200)).to.deep.equal([]);
      expect(balanced.filter(({ status }) => status >= 500)).to.deep.equal([]);
    });
    it('replacing a process cuts no stream', () => {
      expect(streams).to.be.above(LISTENERS);
    });
    it('killing a process fails only the requests that it was processing', () => {
      const lost = whileKilled.filter(({ status }) => status !== 200);
      expect(
        lost.filter(({ status, startedMs }) => status !== 502 || startedMs > killedMs),
      ).to.deep.equal([]);
    });
    it('CNX-05 neither refreshes, new clients, other people nor restarts of all processes release a use', async () => {
      expect((await showConnector(processes(), limited.id)).uses).to.equal(1);
      await connect(processes(), limited, { person: 'grace' });
      expect(await countApproved(processes(), limited, 4)).to.equal(0);
      const { uses, state } = await showConnector(processes(), limited.id);
      expect({ uses, state }).to.deep.equal({ uses: 2, state: 'used-up' });
      expect((await refresh(ada.server, ada.client, ada.refreshToken)).status).to.equal(200);
    });
  });

  describe('behind a load balancer', () => testLeaving(processes));
});

function testLeaving(processes: () => Processes): void {
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
    const connector = await createConnector(processes());
    const { client, refreshToken = '' } = await connect(processes(), connector);
    const [leaving] = processes().running();
    if (!leaving) throw new Error('no process runs');
    const document = { path: '/.well-known/oauth-authorization-server' };
    const ask = (options: RequestOptions) => answerTo(open(leaving, options).end());
    const kept = await ask({ ...document, agent });
    expect(kept.headers.connection).to.equal('keep-alive');

    const form = {
      grant_type: 'refresh_token',
      client_id: client.id,
      refresh_token: refreshToken,
    };
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
}
