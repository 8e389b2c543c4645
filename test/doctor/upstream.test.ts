import { createServer, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { gatehouse } from '../management/command-line.ts';
import { createConnector } from '../support/management-api.ts';
import { freePorts } from '../support/free-ports.ts';
import { runServerWhile } from '../support/main-process.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { createDeployment, startDeployment } from '../support/system.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { startEverythingServer } from '../support/upstream/everything-server.ts';
import { startUpstreamV1 } from '../support/upstream/sdk-v1.ts';
import { startUpstreamV2 } from '../support/upstream/sdk-v2.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';
import { upstreamAt } from './fault.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

const ALL = [...DECLARED, { name: 'undeclared', level: 'full' }] as const;

describe("doctor's check of the MCP server", () => {
  let good: GoodDeployment;
  const servers: Upstream[] = [];
  before(async function start() {
    good = await startGoodDeployment();
    servers.push(await startUpstreamV1(), await startUpstreamV2());
    for (const server of servers) server.trustIssuer(good.authUrl);
  });
  after(async () => {
    for (const server of servers) await server.close();
    await good?.stop();
  });

  async function check(
    url: string,
    more: Parameters<typeof upstreamAt>[1] = { tools: [...ALL] },
    timeout = 15_000,
  ): Promise<Finding[]> {
    const upstream = upstreamAt(url, more);
    const signal = AbortSignal.timeout(timeout);
    const settings = { ...good.settings, upstreams: [upstream] };
    return good.examine({ settings, signal }, ['upstream']);
  }

  it('SUP-08 an MCP server of either revision with the tools in the settings passes, and the caller header names gatehouse', async () => {
    for (const [n, server] of servers.entries()) {
      const findings = await check(server.url);
      expect(
        findings.map(({ outcome }) => outcome),
        JSON.stringify(findings),
      ).to.deep.equal(['ok', 'ok']);
      const [answers, tools] = findings;
      expect(answers?.what).to.include(n === 0 ? 'MCP 2025-11-25' : 'MCP 2026-07-28');
      expect(answers?.what).to.include('has 5 tools');
      expect(tools?.what).to.include('analytics 2, admin 1, full 2');
      const { sub, level } = server.discoveries.at(-1)?.caller ?? {};
      expect([sub, level]).to.deep.equal(['gatehouse', 'full']);
    }
    const methods = servers[0]?.discoveries.map(({ method }) => method) ?? [];
    expect(methods.at(-1), 'the session is closed').to.equal('DELETE');
    expect(methods).to.not.include('GET');
  });

  it('SUP-08 a tool in the settings that the MCP server lacks is a warning that lists the tools it has', async () => {
    for (const { url } of servers) {
      const tools = [...ALL, { name: 'Contacts', level: 'admin' }];
      const findings = await check(url, { tools });
      const [finding] = findings.filter(({ outcome }) => outcome !== 'ok');
      expect(finding).to.include({ check: 'tools', outcome: 'warning' });
      expect(finding?.what).to.match(/does not have Contacts$/);
      expect(finding?.remedy).to.include('whoami, wait, contacts, cards, undeclared');
    }
  });

  it('a tool that is not in the settings is a note with its level', async () => {
    const findings = await check(String(servers[1]?.url), { tools: [...DECLARED] });
    const [finding, ...more] = findings.filter(({ outcome }) => outcome !== 'ok');
    expect(more).to.deep.equal([]);
    expect(finding).to.include({ check: 'tools', outcome: 'note' });
    expect(finding?.what).to.include('undeclared').and.include('defaultLevel, full');
  });

  it('plain headers to an MCP server that gets no credential are a note', async () => {
    const caller = { claims: [], headers: { 'x-user': 'sub' as const } };
    const findings = await check(String(servers[0]?.url), { tools: [...ALL], caller });
    const [finding, ...more] = findings.filter(({ outcome }) => outcome !== 'ok');
    expect(more).to.deep.equal([]);
    expect(finding).to.include({ check: 'caller-headers', outcome: 'note' });
    expect(finding?.remedy).to.include('resourceServer.upstream.headers');
    expect(servers[0]?.discoveries.at(-1)?.headers).to.include({ 'x-user': 'gatehouse' });
  });

  it('SUP-08 an MCP server that refuses the caller header is a problem, and the remedy says what to configure', async () => {
    const stranger = await startUpstreamV2();
    stranger.trustIssuer('https://another.example');
    const [finding] = await check(stranger.url);
    await stranger.close();
    expect(finding).to.include({
      outcome: 'problem',
      what: 'the MCP server refuses Gatehouse (HTTP 401)',
    });
    expect(finding?.remedy).to.include('/oauth/jwks').and.include('gatehouse-caller');
  });

  it('SUP-08 an MCP server that answers without the caller header is a warning', async () => {
    const open = await startEverythingServer();
    const findings = await check(open.url);
    await open.close();
    const finding = findings.find((each) => each.check === 'caller-headers');
    expect(finding).to.include({
      check: 'caller-headers',
      outcome: 'warning',
      what: 'the MCP server answers a request without the caller header',
    });
  });

  it('SUP-08 an unreachable MCP server is a problem that says why', async () => {
    const [port] = await freePorts(1);
    const places = {
      [`http://127.0.0.1:${port}/mcp`]: 'connection refused',
      'http://no-such-host.invalid/mcp': 'does not resolve',
      [`https://127.0.0.1:${new URL(String(servers[0]?.url)).port}/mcp`]: 'responds without TLS',
    };
    for (const [url, says] of Object.entries(places)) {
      const [finding, ...more] = await check(url);
      expect(more).to.deep.equal([]);
      expect(finding).to.include({ check: 'upstream', outcome: 'problem', about: url });
      expect(finding?.what).to.include(says);
    }
  });

  const emptyResult: RequestListener = async (req, res) => {
    const { id } = JSON.parse(await text(req));
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ jsonrpc: '2.0', id, result: {} }));
  };
  const FAULTY: Record<string, [RequestListener, says: RegExp]> = {
    redirects: [
      (_req, res) => res.writeHead(308, { location: 'https://elsewhere.example/mcp?x=1' }).end(),
      /redirects to https:\/\/elsewhere\.example\/mcp \(HTTP 308\)/,
    ],
    'returns 404': [(_req, res) => res.writeHead(404).end(), /no MCP endpoint .*404/],
    'returns 500': [(_req, res) => res.writeHead(500).end('boom'), /responds with HTTP 500/],
    'returns a web page': [
      (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hello'),
      /sends a response that is not valid MCP/,
    ],
    'returns JSON that is no JSON-RPC message': [
      (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{"a":1}'),
      /sends a response that is not valid MCP/,
    ],
    'returns an empty result': [emptyResult, /sends a response that is not valid MCP/],
    'closes connections': [(req) => void req.socket.destroy(), /closes the connection/],
    'sends an endless response': [
      (_req, res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        const more = () => void (res.write(`: ${'x'.repeat(65_536)}\n\n`) && setImmediate(more));
        res.on('drain', more);
        more();
      },
      /more than 100000 bytes/,
    ],
  };
  for (const [what, [answer, says]] of Object.entries(FAULTY)) {
    it(`SUP-08 an MCP server that ${what} is a problem`, async () => {
      const server = await listenOnLoopback(createServer(answer));
      const [finding, ...more] = await check(`${server.origin}/mcp`, { maxAnswerBytes: 100_000 });
      await server.stop();
      expect(more).to.deep.equal([]);
      expect(finding).to.include({ check: 'upstream', outcome: 'problem' });
      expect(finding?.what).to.match(says);
      expect(finding?.what.length).to.be.below(400);
    });
  }

  it('each of several MCP servers is tried', async () => {
    const [port] = await freePorts(1);
    const one = (id: string, url: string, index: number) =>
      upstreamAt(url, { tools: [...ALL], id, setting: `resourceServer.upstreams[${index}]` });
    const upstreams = [
      one('default', String(servers[0]?.url), 0),
      one('broken', `http://127.0.0.1:${port}/mcp`, 1),
    ];
    const findings = await good.examine({ settings: { ...good.settings, upstreams } }, [
      'upstream',
    ]);
    expect(findings.map(({ outcome }) => outcome)).to.have.members(['ok', 'ok', 'problem']);
    const problem = findings.find(({ outcome }) => outcome === 'problem');
    expect(problem?.about).to.equal(`http://127.0.0.1:${port}/mcp`);
    expect(problem?.remedy).to.include('resourceServer.upstreams[1].url');
  });

  it('without the role resource-server, the MCP server gets no request and is not checked, and connectors without a server are still named', async () => {
    let requests = 0;
    const server = await listenOnLoopback(
      createServer((_req, res) => {
        requests += 1;
        res.writeHead(401).end();
      }),
    );
    const setting = 'resourceServer.upstreams[0]';
    const upstream = upstreamAt(`${server.origin}/mcp?key=canary`, { id: 'orders', setting });
    const roles = ['authorization-server' as const, 'management' as const];
    const settings = { ...good.settings, roles, upstreams: [upstream] };
    const findings = await good.examine({ settings }, ['upstream']);
    await server.stop();
    expect(requests).to.equal(0);
    expect(findings.map(({ outcome, about }) => [outcome, about])).to.deep.equal([
      ['warning', 'resourceServer.upstreams'],
      ['unknown', `${server.origin}/mcp`],
    ]);
    expect(findings[0]?.what).to.include('"Ops" (default)');
    expect(findings[1]?.what).to.match(
      /only processes with the role resource-server .* run doctor/,
    );
  });

  it('connectors whose MCP server is not in the settings are a warning that names them', async () => {
    const upstream = upstreamAt(String(servers[0]?.url), { tools: [...ALL], id: 'orders' });
    const settings = { ...good.settings, upstreams: [upstream] };
    const findings = await good.examine({ settings }, ['upstream']);
    const [warning, ...more] = findings.filter(({ outcome }) => outcome !== 'ok');
    expect(more).to.deep.equal([]);
    expect([warning?.outcome, warning?.what]).to.deep.equal([
      'warning',
      '1 connectors or minted tokens lead to an MCP server that is not in the settings: "Ops" (default)',
    ]);
    expect(warning?.remedy).to.include('(it has orders)');
  });

  it('SUP-08 the examination ends at its time limit if the MCP server never answers', async () => {
    const server = await listenOnLoopback(createServer(() => undefined));
    const findings = await check(`${server.origin}/mcp`, {}, 200);
    await server.stop();
    // The check of the records has the same name and limit.
    const finding = findings.find(({ about }) => about === 'the MCP server');
    expect(finding?.what).to.equal('the check did not finish in time');
  });

  it('SUP-08 the command reads the signing key from a SQLite store, and exits with 1 for a warning', async function checkSqlite() {
    const [upstream] = servers;
    if (!upstream) throw new Error('the MCP server has not started');
    const tools = [...ALL, { name: 'gone', level: 'full' }];
    const place = await createDeployment({
      file: { resourceServer: { upstream: { url: upstream.url, tools } } },
    });
    const system = await startDeployment(place);
    try {
      upstream.trustIssuer(system.auth);
      await createConnector(system);
      const { code, stdout } = await gatehouse(['doctor', '--json'], place.environment);
      const { findings } = JSON.parse(stdout) as { findings: Finding[] };
      const wrong = findings.filter(({ outcome }) => /warning|problem/.test(outcome));
      expect(wrong.map(({ check, what }) => [check, what])).to.deep.equal([
        ['tools', 'the MCP server does not have gone'],
      ]);
      expect(code).to.equal(1);
    } finally {
      upstream.trustIssuer(good.authUrl);
      await system.stop();
      await place.release();
    }
  });

  it('after start --upstream, doctor without the option does not say that the first connect link gives no access', async () => {
    const [server] = servers;
    const { environment, release } = await createDeployment();
    const { GATEHOUSE_CONFIG: _development, ...trial } = environment;
    try {
      await runServerWhile(
        trial,
        /connect\//,
        async () => {
          const { stdout } = await gatehouse(['doctor', '--json'], trial);
          const { findings } = JSON.parse(stdout) as { findings: Finding[] };
          const found = findings.filter(({ why }) => why === 'they give no access');
          expect(found).to.deep.equal([]);
          expect(findings.find(({ check: name }) => name === 'levels')?.outcome).to.equal('ok');
        },
        ['--upstream', server?.url ?? ''],
      );
    } finally {
      await release();
    }
  });
});
