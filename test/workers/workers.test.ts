// `gatehouse start --workers`: one supervisor, whose workers share the listeners.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, createServer, get, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { SettingsError } from '../../src/settings/issues.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { childrenOf } from '../support/child-processes.ts';
import { connect, type Connection } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { startRedis } from '../support/redis-server.ts';
import { createConnector, reloadSettings } from '../support/management-api.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';
import {
  echo,
  startScriptedUpstream,
  type ScriptedUpstream,
  toolCall,
} from '../support/upstream/scripted-upstream.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

const WORKERS = 2;
/** Of a call that reached the MCP server. */
const RESULT = JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} });

describe('Workers', () => {
  let upstream: ScriptedUpstream;
  const system = useProcesses(async () => {
    upstream = await startScriptedUpstream();
    const tools = { url: upstream.url, tools: DECLARED };
    return {
      store: 'redis',
      count: 1,
      file: { workers: WORKERS, resourceServer: { upstream: tools } },
    };
  });
  before(() => upstream.trustIssuer(system().auth));
  after(() => upstream.close());
  beforeEach(() => upstream.respondWith(echo));

  const supervisor = () => {
    const [process] = system().running();
    if (!process) throw new Error('the supervisor does not run');
    return process;
  };
  const workers = () => childrenOf(supervisor().pid);
  const metric = async (name: string) => {
    const text = await requestMetrics();
    const lines = text.split('\n').filter((line) => line.startsWith(name));
    return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  };
  const requestMetrics = async () => {
    const { managementKey, management } = system();
    const response = await fetch(`${management}/metrics`, {
      headers: { authorization: `Bearer ${managementKey}` },
    });
    expect(response.status).to.equal(200);
    return response.text();
  };
  const newConnection = async () => connect(system(), await createConnector(system()));

  /** One call through a connection of `agent` to the listener itself. */
  const callDirectly = ({ link, accessToken }: Connection, agent: Agent, given = {}) => {
    const { pathname, host } = new URL(link);
    const body = JSON.stringify(toolCall('whoami', 1, given));
    return new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const sent = request(
        {
          agent,
          host: '127.0.0.1',
          port: supervisor().ports.RESOURCE,
          path: pathname,
          method: 'POST',
          headers: {
            host,
            authorization: `Bearer ${accessToken}`,
            accept: 'application/json, text/event-stream',
            'content-type': 'application/json',
            'mcp-protocol-version': '2025-11-25',
          },
        },
        (response) => {
          let text = '';
          response.on('data', (part) => (text += part));
          response.once('error', reject);
          response.once('end', () => resolve({ status: response.statusCode, text }));
        },
      );
      sent.once('error', reject);
      sent.end(body);
    });
  };

  it('serve the same addresses, print them once, and have one set of metrics', async () => {
    expect(workers()).to.have.length(WORKERS);
    expect(
      supervisor()
        .output()
        .match(/ is running\./g),
    ).to.have.length(1);
    const before = await metric('gatehouse_requests_total{host="authorization-server"');
    const asked = Array.from({ length: 20 }, () =>
      fetch(`http://127.0.0.1:${supervisor().ports.AUTH}/livez`, {
        headers: { connection: 'close' },
      }),
    );
    for (const response of await Promise.all(asked)) await response.body?.cancel();
    const pages = Array.from({ length: 20 }, () => fetch(`${system().auth}/jwks`));
    for (const response of await Promise.all(pages)) await response.body?.cancel();
    // A busy worker is counted with its last numbers.
    await until('all requests to be counted', async () => {
      const after = await metric('gatehouse_requests_total{host="authorization-server"');
      return after - before === 20;
    });
    expect(await metric('gatehouse_workers')).to.equal(WORKERS);
    expect(await metric('gatehouse_audit_verified')).to.equal(1);
  });

  it('are replaced when they die, which the log and the metrics say, and what they counted stays', async () => {
    const connection = await newConnection();
    const counted = await metric('gatehouse_tokens_total');
    expect(counted).to.be.at.least(1);
    const deaths = await metric('gatehouse_worker_deaths_total');
    const [first] = workers();
    process.kill(first ?? 0, 'SIGKILL');
    await until('another worker', () => {
      const now = workers();
      return now.length === WORKERS && !now.includes(first ?? 0);
    });
    const agent = new Agent();
    const { status, text } = await callDirectly(connection, agent);
    expect([status, text]).to.deep.equal([200, RESULT]);
    await until(
      'the metrics to say so',
      async () => (await metric('gatehouse_worker_deaths_total')) === deaths + 1,
    );
    await until(
      'what the dead worker counted',
      async () => (await metric('gatehouse_tokens_total')) === counted,
    );
    expect(supervisor().output()).to.include('a worker ended by itself').and.include('SIGKILL');
  });

  it('that die leave no connection waiting that they did not take', async () => {
    const [hanging = 0] = workers();
    process.kill(hanging, 'SIGSTOP');
    // Each worker gets one at a time, and the stopped one does not take it.
    const outcomes: string[] = [];
    const asked = Array.from({ length: 2 * WORKERS }, async () => {
      const sent = get({ agent: false, port: supervisor().ports.AUTH, path: '/livez' });
      const [response] = await once(sent, 'response').catch(() => []);
      response?.resume();
      outcomes.push(response ? 'answered' : 'ended');
    });
    await until('the others to be answered', () => outcomes.length === asked.length - 1);
    process.kill(hanging, 'SIGKILL');
    await Promise.all(asked);
    expect(outcomes).to.deep.equal(['answered', 'answered', 'answered', 'ended']);
    await until('another worker', () => workers().length === WORKERS);
  });

  it('are restarted one after the other by SIGUSR2, without a failed request, and a call in progress ends', async () => {
    const connection = await newConnection();
    const before = workers();
    let finish: (() => void) | undefined;
    upstream.respondWith((...call) => {
      if (!JSON.stringify(call[2]).includes('slow')) return echo(...call);
      finish = () => void echo(...call);
    });
    const slow = callDirectly(connection, new Agent(), { slow: true });
    await until('the slow call to arrive', () => finish !== undefined);
    const agents = Array.from(
      { length: 8 },
      () => new Agent({ keepAlive: true, maxSockets: 1, maxFreeSockets: 1 }),
    );
    const done = new AbortController();
    const answers = new Set<string>();
    const clients = agents.map(async (agent) => {
      while (!done.signal.aborted) {
        const { status, text } = await callDirectly(connection, agent);
        answers.add(`${status} ${text}`);
      }
    });
    process.kill(supervisor().pid, 'SIGUSR2');
    await until('all workers to have a successor', () => {
      const now = workers();
      return now.filter((pid) => !before.includes(pid)).length === WORKERS;
    });
    done.abort();
    await Promise.all(clients);
    expect([...answers]).to.deep.equal([`200 ${RESULT}`]);
    finish?.();
    expect(await slow).to.deep.equal({ status: 200, text: RESULT });
    for (const agent of agents) agent.destroy();
  });

  it('all follow a reload', async () => {
    const undo = changeSettings(system(), { productName: 'Changed for all workers' });
    try {
      process.kill(supervisor().pid, 'SIGHUP');
      const titles = async () => {
        const pages = Array.from({ length: 8 }, () =>
          fetch(`${system().auth}/`, { headers: { accept: 'text/html' } }),
        );
        return Promise.all((await Promise.all(pages)).map((page) => page.text()));
      };
      await until('all to have the new name', async () =>
        (await titles()).every((page) => page.includes('Changed for all workers')),
      );
    } finally {
      undo();
      await reloadSettings(system());
    }
  });

  it('end with their supervisor, also when it is killed', async () => {
    const pids = workers();
    await supervisor().kill();
    await until('the workers to end', () => pids.every((pid) => !isAlive(pid)));
    const again = await system().add();
    const next = childrenOf(again.pid);
    expect(next).to.have.length(WORKERS);
    expect(await again.stop()).to.equal(0);
    expect(next.filter(isAlive)).to.deep.equal([]);
    await system().add();
  });
});

describe('Workers that cannot start', () => {
  const { PATH } = process.env;
  const start = async (words: string[], environment: Record<string, string>) => {
    const child = spawn(process.execPath, nodeArguments(['start', ...words]), {
      env: { PATH, ...environment },
    });
    let stderr = '';
    child.stderr.on('data', (text) => (stderr += text));
    const [code] = await once(child, 'close');
    return { code, stderr };
  };

  it('with SQLite, because it supports one process', async () => {
    const { code, stderr } = await start(['--workers', '2'], {});
    expect(code).to.equal(2);
    expect(stderr).to.include('--workers').and.include('a Redis store');
  });

  it('with a number that is none', async () => {
    expect(await start(['--workers', '0'], {})).to.deep.include({ code: 2 });
    for (const workers of ['0', '1.5', 'many', '129', ''])
      expect(() => loadSettings({}, { makesSecrets: false, options: { workers } })).to.throw(
        SettingsError,
        /--workers.*a whole number from 1 to 128/,
      );
  });

  it('on a port that another program uses, which is said once', async () => {
    const redis = await startRedis();
    const other = createServer().listen(0, '127.0.0.1');
    const dataDir = mkdtempSync(join(tmpdir(), 'gatehouse-'));
    try {
      await once(other, 'listening');
      const { port } = other.address() as AddressInfo;
      const ports = await freePorts(3);
      const { code, stderr } = await start(['--workers', '2'], {
        GATEHOUSE_STORE: redis.url,
        GATEHOUSE_DATA_DIR: dataDir,
        GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${port}`,
        GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${ports[0]}`,
        GATEHOUSE_MANAGEMENT_LISTEN: `127.0.0.1:${ports[1]}`,
        GATEHOUSE_DEVELOPMENT_IDP_LISTEN: `127.0.0.1:${ports[2]}`,
      });
      expect(code).to.equal(2);
      expect(stderr.match(/port \d+ is in use/g)).to.deep.equal([`port ${port} is in use`]);
    } finally {
      other.close();
      rmSync(dataDir, { recursive: true });
      await redis.stop();
    }
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
