import { expect } from 'chai';
import { z } from 'zod';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { rawRequest } from '../support/raw-request.ts';
import type { GatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import {
  json,
  resultFor,
  startScriptedUpstream,
  type ScriptedUpstream,
  toolCall,
} from '../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../support/upstream/system.ts';

const PROCESSES = 4;
const CONNECTIONS = 32;
const CALLS_EACH = 14;
const LIMIT = 300;
const TOOLS = [{ name: 'look', level: 'analytics' }];

const machine = z.looseObject({ id: z.string(), secret: z.string(), link: z.string() });

describe(`Limits on calls in ${PROCESSES} processes`, () => {
  let upstream: ScriptedUpstream;
  let forwarded = 0;
  const processes = useProcesses(async () => {
    upstream = await startScriptedUpstream();
    upstream.respondWith((_req, res, body) => {
      forwarded += 1;
      json(res, resultFor(body as { id: number }));
    });
    const file = { resourceServer: { upstream: { url: upstream.url, tools: TOOLS } } };
    return { store: 'redis', count: PROCESSES, file, inThisProcess: true };
  });
  before(() => upstream.trustIssuer(processes().auth));
  after(() => upstream.close());

  /** Returns the token of a new machine of the connector. */
  async function connectMachine(connector: string): Promise<string> {
    const wanted = { name: 'Machine', connector, level: 'analytics' };
    const { id, secret, link } = machine.parse(
      await requestManagement(processes(), 'POST', '/clients', wanted),
    );
    const response = await fetch(`${processes().auth}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: link }),
    });
    return z.looseObject({ access_token: z.string() }).parse(await response.json()).access_token;
  }

  async function isForwarded(called: GatehouseProcess, link: string, token: string) {
    const { host, pathname } = new URL(link);
    const { status, body } = await rawRequest(`http://127.0.0.1:${called.ports.RESOURCE}`, {
      method: 'POST',
      path: pathname,
      headers: {
        host,
        authorization: `Bearer ${token}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-protocol-version': '2025-11-25',
      },
      chunks: [JSON.stringify(toolCall('look'))],
    });
    expect(status).to.equal(200);
    expect(body).to.match(
      /"result":\{\}|is reached \(300\/10m\), so nothing was done: call again in/,
    );
    return body.includes('"result":{}');
  }

  it(`DOS-10 ${CONNECTIONS} connections forward exactly the ${LIMIT} calls of their connector, also across a restart of a process`, async () => {
    const connector = await createConnector(processes(), {
      level: 'analytics',
      calls: `${LIMIT}/10m`,
    });
    const connecting = Array.from({ length: CONNECTIONS }, () => connectMachine(connector.id));
    const tokens = await Promise.all(connecting);
    let made = 0;
    const work = async (token: string, n: number) => {
      for (let turn = 0; turn < CALLS_EACH; turn += 1) {
        const running = processes().running();
        const called = running[(n + turn) % running.length];
        if (called && (await isForwarded(called, connector.link, token))) made += 1;
      }
    };
    const first = tokens.slice(0, CONNECTIONS / 2);
    const second = tokens.slice(CONNECTIONS / 2);
    await Promise.all(first.map(work));
    expect([made, forwarded]).to.deep.equal([first.length * CALLS_EACH, made]);
    await processes().running()[0]?.kill();
    await processes().add();
    await Promise.all(second.map(work));
    expect([made, forwarded]).to.deep.equal([LIMIT, LIMIT]);
  });
});

describe('Limits on calls while the store is frozen', () => {
  const behind = useUpstream(startScriptedUpstream, {
    settings: { tools: TOOLS },
    file: { limits: { calls: { perConnection: '2/10m' } } },
    system: { store: 'redis' },
  });

  it('DOS-10 calls go on, and the process counts for itself', async () => {
    const { system } = behind();
    const { link } = await createConnector(system, { level: 'analytics' });
    const { accessToken } = await connect(system, { link }, { level: 'analytics' });
    for (let n = 0; n < 3; n += 1) await callTool(link, accessToken, 'look');
    system.signalStore('SIGSTOP');
    try {
      const answers = [];
      for (let n = 0; n < 3; n += 1) answers.push(await callTool(link, accessToken, 'look'));
      const outcomes = answers.map(({ rpc }) => (rpc?.result?.isError ? 'limited' : 'made'));
      expect(outcomes).to.deep.equal(['made', 'made', 'limited']);
    } finally {
      system.signalStore('SIGCONT');
    }
  });
});
