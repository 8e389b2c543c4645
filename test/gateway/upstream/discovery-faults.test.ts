import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json as readJson } from 'node:stream/consumers';
import { expect } from 'chai';
import { DEFAULT_LEVELS } from '../../../src/permission-levels.ts';
import { discoverTools, watchTools } from '../../../src/gateway/upstream/discovery.ts';
import type { DiscoveryError } from '../../../src/gateway/upstream/discovery-faults.ts';
import { listenOnLoopback } from '../../support/loopback-server.ts';
import { until } from '../../support/until.ts';

const SECRET = 'canary-of-the-operator';

const optionsFor = (origin: string) => ({
  url: `${origin}/mcp`,
  issuer: 'http://localhost:4000',
  levels: DEFAULT_LEVELS,
  credentials: { authorization: `Bearer ${SECRET}` },
  maxAnswerBytes: 1_000_000,
  version: '1.0.0',
  timeout: 5000,
  now: () => Date.now() / 1000,
});

type Body = { id?: number; method?: string };
type Handle = (req: IncomingMessage, res: ServerResponse, body: Body) => void;

const sent = (req: IncomingMessage) => req.headers.authorization ?? '';
const respond = (res: ServerResponse, body: object) =>
  void res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const fails = (res: ServerResponse, id: number | undefined, message: string) =>
  respond(res, { jsonrpc: '2.0', id, error: { code: -32_000, message } });

const ECHOES: Record<string, Handle> = {
  'the message of an error': (req, res, { id }) => fails(res, id, `wrong: ${sent(req)}`),
  'a part in the message of an error': (req, res, { id }) =>
    fails(res, id, `wrong: ${sent(req).slice(12, 24)}…`),
  'text that is not JSON': (req, res) =>
    void res.writeHead(200, { 'content-type': 'application/json' }).end(sent(req).slice(7)),
  'its content type': (req, res) =>
    void res.writeHead(200, { 'content-type': `text/${sent(req)}` }).end('x'),
  'a redirect': (req, res) => void res.writeHead(307, { location: `/as/${sent(req)}` }).end(),
  'an escaped redirect': (req, res) => {
    const location = `/as/${sent(req).replaceAll('-', '%2D')}`;
    res.writeHead(307, { location }).end();
  },
};

const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: 'hasty', version: '1.0.0' },
};

/** Responds to a request with the result for its method. */
function respondWith(results: Record<string, object>): Handle {
  return (_req, res, { id, method = '' }) => {
    if (id === undefined) return void res.writeHead(202).end();
    const result = results[method];
    if (!result) return fails(res, id, 'unknown method');
    return respond(res, { jsonrpc: '2.0', id, result });
  };
}

async function faultOf(handle: Handle): Promise<DiscoveryError> {
  const server = await listenOnLoopback(
    createServer(async (req, res) => handle(req, res, (await readJson(req)) as Body)),
  );
  try {
    return await discoverTools(optionsFor(server.origin)).then(
      () => expect.fail('the tools were read'),
      (error: DiscoveryError) => error,
    );
  } finally {
    await server.stop();
  }
}

describe('A fault of an upstream', () => {
  for (const [where, handle] of Object.entries(ECHOES))
    it(`UPS-13 a credential that the upstream repeats in ${where} is not in the fault`, async () => {
      const { message } = await faultOf(handle);
      const shown = decodeURIComponent(message);
      for (let start = 0; start + 6 <= SECRET.length; start += 1)
        expect(shown).to.not.include(SECRET.slice(start, start + 6));
      expect(message).to.match(/^(answers|sends|redirects) /);
    });

  it('the text of an error is shown if it repeats no credential', async () => {
    const { message } = await faultOf((_req, res, { id }) =>
      fails(res, id, 'the Bearer token has expired'),
    );
    expect(message).to.equal('answers with the error -32000 (the Bearer token has expired)');
  });

  it('UPS-13 a tool title that repeats a credential is left out, and others are kept', async () => {
    const tools = ['Search tickets', `Search as ${SECRET}`, `Search with ${SECRET.slice(3, 12)}`];
    const listed = tools.map((title, n) => ({
      name: `${n}`,
      title,
      inputSchema: { type: 'object' },
    }));
    const handle = respondWith({ initialize: INITIALIZED, 'tools/list': { tools: listed } });
    const server = await listenOnLoopback(
      createServer(async (req, res) => {
        if (req.method !== 'POST') return void res.writeHead(405).end();
        return handle(req, res, (await readJson(req)) as Body);
      }),
    );
    const found = await discoverTools(optionsFor(server.origin));
    await server.stop();
    expect(found.tools).to.deep.equal([
      { name: '0', title: 'Search tickets' },
      { name: '1' },
      { name: '2' },
    ]);
  });

  it('UPS-14 an upstream that ends its streams at once is not asked for the next one all the time', async () => {
    let streams = 0;
    const listsNone = respondWith({ initialize: INITIALIZED, 'tools/list': { tools: [] } });
    const server = await listenOnLoopback(
      createServer(async (req, res) => {
        if (req.method === 'GET') {
          streams += 1;
          const stream = res.writeHead(200, { 'content-type': 'text/event-stream' });
          return void stream.end(`retry: 0\nid: ${streams}\ndata: \n\n`);
        }
        if (req.method === 'DELETE') return void res.end();
        return listsNone(req, res, (await readJson(req)) as Body);
      }),
    );
    const began = performance.now();
    const watch = await watchTools(optionsFor(server.origin), () => {});
    try {
      await until('the third stream', () => streams >= 3);
      // Two seconds apart, and timers may be a little early.
      expect(streams - 1).to.be.at.most((performance.now() - began) / 1990);
    } finally {
      await watch.close();
      await server.stop();
    }
  });
});
