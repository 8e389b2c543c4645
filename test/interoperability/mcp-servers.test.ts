import { expect } from 'chai';
import { DEFAULT_LEVELS } from '../../src/permission-levels.ts';
import { discoverTools } from '../../src/gateway/upstream/discovery.ts';
import type { DiscoveryError } from '../../src/gateway/upstream/discovery-faults.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { call, postBody } from '../support/mcp.ts';
import { startSystem, type System } from '../support/system.ts';
import { toolCall } from '../support/upstream/scripted-upstream.ts';
import {
  type PlayedServer,
  playRecorded,
  playTypeScriptV1,
  playTypeScriptV2,
  RECORDED,
} from './mcp-servers.ts';

type Play = (options?: { checksHost?: boolean }) => Promise<PlayedServer>;

const SERVERS: Record<string, Play> = {
  'typescript v1': playTypeScriptV1,
  'typescript v2': playTypeScriptV2,
  ...Object.fromEntries(
    Object.entries(RECORDED).map(([name, recorded]): [string, Play] => [
      name,
      (options) => playRecorded(recorded, options),
    ]),
  ),
};

const discover = (url: string, host?: string) =>
  discoverTools({
    url,
    ...(host === undefined ? {} : { host }),
    issuer: 'http://localhost:4000',
    levels: DEFAULT_LEVELS,
    credentials: {},
    maxAnswerBytes: 100_000,
    version: '1.0.0',
    timeout: 8000,
    now: () => Date.now() / 1000,
  });

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'table', version: '1' },
  },
};

/** What a cell runs, in front of a running server. */
type Behind = { server: PlayedServer; play: Play; link: string; token: string };

const ASPECTS = {
  'a probe that it does not know': async ({ server }: Behind) => {
    const before = new Set(server.sessions);
    expect((await discover(server.url)).tools.map(({ name }) => name)).to.deep.equal(['echo']);
    expect([...server.sessions].filter((id) => !before.has(id))).to.deep.equal([]);
  },
  'the Host that it accepts': async ({ play }: Behind) => {
    const strict = await play({ checksHost: true });
    try {
      const refused = await discover(strict.url).catch((error: DiscoveryError) => error);
      expect(refused).to.include({ fault: 'wrong-host' });
      expect((await discover(strict.url, 'localhost:8000')).tools).to.have.length(1);
    } finally {
      await strict.stop();
    }
  },
  'its session ids': async ({ link, token, server }: Behind) => {
    const { status, headers } = await call(link, token, INITIALIZE);
    const session = headers.get('mcp-session-id') ?? '';
    expect([status, session.split('.').length]).to.deep.equal([200, 2]);
    const used = await call(link, token, toolCall('echo'), {
      headers: { 'mcp-session-id': session },
    });
    expect(used.rpc?.result?.content?.[0]?.text, used.text).to.equal('echo');
    expect(server.sessions.has(session.split('.')[1] ?? '')).to.equal(true);
  },
  'null in place of absent': async ({ link, token }: Behind) => {
    const { headers } = await call(link, token, INITIALIZE);
    const session = headers.get('mcp-session-id');
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: null };
    const { status, text } = await call(link, token, list, {
      headers: session === null ? {} : { 'mcp-session-id': session },
    });
    expect([status, text.includes('"name":"echo"')], text).to.deep.equal([200, true]);
  },
  'a byte order mark before JSON': async ({ link, token }: Behind) => {
    const response = await postBody(link, token, `\uFEFF${JSON.stringify(INITIALIZE)}`);
    const text = await response.text();
    expect([response.status, text.includes('\uFEFF')], text).to.deep.equal([200, false]);
  },
  'a session that it lost': async ({ link, token, server }: Behind) => {
    const { headers } = await call(link, token, INITIALIZE);
    const session = headers.get('mcp-session-id') ?? '';
    server.forget();
    const lost = await call(link, token, toolCall('echo', 'a'), {
      headers: { 'mcp-session-id': session },
    });
    expect(lost.status).to.equal(404);
    expect(lost.rpc).to.deep.include({ jsonrpc: '2.0', id: 'a' });
    expect(lost.rpc?.error).to.include.keys('code', 'message');
  },
};

type Aspect = keyof typeof ASPECTS;

/** Cells without a test, each with its reason. */
const REASONS: Record<string, Partial<Record<Aspect, string>>> = {
  'typescript v2': {
    'its session ids': 'has no sessions (2026-07-28 removed them)',
    'a session that it lost': 'has no sessions',
  },
};

describe('The table of MCP servers', () => {
  const running = new Map<string, Behind>();
  let system: System;
  before(async () => {
    const servers: [string, PlayedServer, Play][] = [];
    for (const [name, play] of Object.entries(SERVERS)) servers.push([name, await play(), play]);
    const idOf = (name: string) => name.replaceAll(/[^a-z0-9]/g, '-');
    system = await startSystem({
      file: {
        resourceServer: {
          upstreams: servers.map(([name, { url }]) => ({ id: idOf(name), url })),
        },
      },
    });
    for (const [name, server, play] of servers) {
      const { token } = await mint(system, { level: 'full', upstream: idOf(name) });
      running.set(name, { server, play, link: addressOf(system), token });
    }
  });
  after(async () => {
    await system.stop();
    for (const { server } of running.values()) await server.stop();
  });

  const behind = (name: string): Behind => {
    const found = running.get(name);
    if (!found) throw new Error(`no server ${name}`);
    return found;
  };

  for (const name of Object.keys(SERVERS))
    for (const [aspect, run] of Object.entries(ASPECTS)) {
      const reason = REASONS[name]?.[aspect as Aspect];
      if (reason === undefined)
        it(`a server of the SDK for ${name} works through Gatehouse with ${aspect}`, () =>
          run(behind(name)));
    }
});
