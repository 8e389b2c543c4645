import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json as readJson } from 'node:stream/consumers';
import { expect } from 'chai';
import { DEFAULT_LEVELS } from '../../../src/permission-levels.ts';
import { type Discovered, discoverTools } from '../../../src/gateway/upstream/discovery.ts';
import { DiscoveryError } from '../../../src/gateway/upstream/discovery-faults.ts';
import { listenOnLoopback } from '../../support/loopback-server.ts';

type Call = { id?: number | string; method?: string; params?: { cursor?: string } };
type Handle = (res: ServerResponse, call: Call, req: IncomingMessage) => void;

const send = (
  res: ServerResponse,
  body: object | string,
  status = 200,
  type = 'application/json',
) =>
  void res
    .writeHead(status, { 'content-type': type })
    .end(typeof body === 'string' ? body : JSON.stringify(body));
const answer = (id: unknown, result: unknown) => ({ jsonrpc: '2.0', id, result });
const fault = (id: unknown, code: number) => ({
  jsonrpc: '2.0',
  id,
  error: { code, message: 'x' },
});

const HANDSHAKE = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'older', version: '1' },
};
const ECHO = { name: 'echo', inputSchema: { type: 'object' } };

/** A server of before 2026-07-28. `handlers` replace what it does for a method. */
async function withServer<T>(
  handlers: Record<string, Handle>,
  use: (origin: string, methods: string[]) => Promise<T>,
): Promise<T> {
  const methods: string[] = [];
  const server = await listenOnLoopback(
    createServer(async (req, res) => {
      if (req.method !== 'POST') return void res.writeHead(405).end();
      const call = (await readJson(req)) as Call;
      const { id, method = '' } = call;
      methods.push(method);
      const handle = handlers[method];
      if (handle) return handle(res, call, req);
      if (id === undefined) return void res.writeHead(202).end();
      if (method === 'initialize') return send(res, answer(id, HANDSHAKE));
      if (method === 'tools/list') return send(res, answer(id, { tools: [ECHO] }));
      return send(res, fault(id, -32_601));
    }),
  );
  try {
    return await use(server.origin, methods);
  } finally {
    await server.stop();
  }
}

function discover(origin: string, more: { host?: string } = {}): Promise<Discovered> {
  return discoverTools({
    url: `${origin}/mcp`,
    issuer: 'http://localhost:4000',
    levels: DEFAULT_LEVELS,
    credentials: {},
    maxAnswerBytes: 100_000,
    version: '1.0.0',
    timeout: 6000,
    now: () => Date.now() / 1000,
    ...more,
  });
}

const namesFrom = (handlers: Record<string, Handle>) =>
  withServer(handlers, async (origin) => (await discover(origin)).tools.map(({ name }) => name));

describe('A server of before 2026-07-28', () => {
  const PROBES: Record<string, Handle> = {
    'an unknown method': (res, { id }) => send(res, fault(id, -32_601)),
    'a parse error with the id null': (res) => send(res, fault(null, -32_700)),
    'a parse error with an id of its own': (res) => send(res, fault('server-error', -32_600), 400),
    'HTTP 400 about the protocol version': (res) => send(res, 'Bad Request: version', 400),
    'HTTP 401 before the handshake': (res) => send(res, 'no session', 401),
    'HTTP 403': (res) => send(res, 'no', 403),
    'HTTP 404': (res) => send(res, fault(null, -32_001), 404),
    'HTTP 500 with a JSON-RPC error': (res, { id }) => send(res, fault(id, -32_603), 500),
    'HTTP 501': (res) => void res.writeHead(501).end(),
    'HTTP 202 without a body': (res) => void res.writeHead(202).end(),
    'HTTP 204': (res) => void res.writeHead(204).end(),
    'HTTP 200 without a body': (res) => send(res, ''),
    'HTTP 307': (res) => void res.writeHead(307, { location: '/login' }).end(),
    'a web page': (res) => send(res, '<p>', 200, 'text/html'),
    'the result null': (res, { id }) => send(res, answer(id, null)),
    'a result of another kind': (res, { id }) => send(res, answer(id, {})),
    'an endless stream': (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
    },
    'a response that is too large': (res) => send(res, ' '.repeat(200_000)),
    'a closed connection': (res) => res.destroy(),
    'nothing at all': () => undefined,
  };
  for (const [what, probe] of Object.entries(PROBES))
    it(`is read although it answers server/discover with ${what}`, async () => {
      expect(await namesFrom({ 'server/discover': probe })).to.deep.equal(['echo']);
    });

  it('is not asked to initialize if it lists revisions of the newer kind', async () => {
    const newer = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
    const methods = await withServer(
      {
        'server/discover': (res, { id }) =>
          send(
            res,
            answer(id, { resultType: 'complete', ttlMs: 0, cacheScope: 'private', ...newer }),
          ),
        'tools/list': (res, { id }) =>
          send(
            res,
            answer(id, { resultType: 'complete', ttlMs: 0, cacheScope: 'private', tools: [ECHO] }),
          ),
      },
      async (origin, called) => {
        await discover(origin);
        return called;
      },
    );
    expect(methods).to.deep.equal(['server/discover', 'tools/list']);
  });

  for (const [known, attempts] of [
    ['2025-06-18', 2],
    ['2024-01-01', 2],
  ] as const)
    it(`with ${known} that answers HTTP 400 to the handshake of another revision is tried once with an older one`, async () => {
      const asked: string[] = [];
      const names = await namesFrom({
        initialize(res, { id, params }) {
          const { protocolVersion: revision } = params as { protocolVersion: string };
          asked.push(revision);
          if (revision !== known) return send(res, 'Bad Request: unsupported version', 400);
          return send(res, answer(id, { ...HANDSHAKE, protocolVersion: revision }));
        },
      }).catch((error: Error) => error.message);
      expect(names).to.deep.equal(known === '2025-06-18' ? ['echo'] : 'responds with HTTP 400');
      expect(asked).to.have.length(attempts);
      expect(asked.at(-1)).to.equal('2025-06-18');
    });

  const NULLS = {
    instructions: null,
    _meta: null,
    serverInfo: { name: 'x', title: null },
    capabilities: { tools: { listChanged: null }, prompts: null },
  };
  const HANDSHAKES: Record<string, Handle> = {
    'null in place of absent members': (res, { id }) =>
      send(res, { ...answer(id, { ...HANDSHAKE, ...NULLS }), error: null }),
    'a byte order mark': (res, { id }) =>
      send(res, `\uFEFF${JSON.stringify(answer(id, HANDSHAKE))}`),
    'an event that is not JSON': (res, { id }) =>
      send(
        res,
        `data: ping\n\ndata: ${JSON.stringify(answer(id, HANDSHAKE))}\n\n`,
        200,
        'text/event-stream',
      ),
    'an empty event before it, and CRLF line endings': (res, { id }) =>
      send(
        res,
        `id: 1\r\ndata: \r\n\r\nevent: message\r\ndata: ${JSON.stringify(answer(id, HANDSHAKE))}\r\n\r\n`,
        200,
        'text/event-stream',
      ),
    'no name of the server': (res, { id }) =>
      send(res, answer(id, { ...HANDSHAKE, serverInfo: undefined })),
  };
  for (const [what, initialize] of Object.entries(HANDSHAKES))
    it(`is read although its handshake has ${what}`, async () => {
      expect(await namesFrom({ initialize })).to.deep.equal(['echo']);
    });

  it('is read although members of its tools are null or of another type than MCP says', async () => {
    const ODD: Record<string, unknown>[] = [
      { title: null, description: null, annotations: null, outputSchema: null, _meta: null },
      { annotations: { readOnlyHint: null, destructiveHint: true } },
      { inputSchema: {} },
      { inputSchema: null },
      { inputSchema: { type: 'object', properties: [], required: null } },
    ];
    const tools = ODD.map((members, n) => ({ ...ECHO, name: `t${n}`, ...members }));
    const found = await withServer(
      {
        'tools/list': (res, { id }) =>
          send(res, answer(id, { tools: [...tools, null, { name: 7 }], nextCursor: null })),
      },
      (origin) => discover(origin),
    );
    expect(found.tools).to.deep.equal([
      { name: 't0' },
      { name: 't1', hints: { destructiveHint: true } },
      { name: 't2' },
      { name: 't3' },
      { name: 't4' },
    ]);
  });

  it('loses the session that it started for the probe', async () => {
    const ended: unknown[] = [];
    const server = await listenOnLoopback(
      createServer(async (req, res) => {
        if (req.method === 'GET') return void res.writeHead(405).end();
        if (req.method === 'DELETE')
          return void (ended.push(req.headers['mcp-session-id']), res.end());
        const { id, method = '' } = (await readJson(req)) as Call;
        if (method === 'server/discover') {
          res.setHeader('mcp-session-id', 'left');
          return send(res, fault('server-error', -32_600), 400);
        }
        if (id === undefined) return void res.writeHead(202).end();
        return send(res, answer(id, method === 'initialize' ? HANDSHAKE : { tools: [ECHO] }));
      }),
    );
    try {
      expect((await discover(server.origin)).tools).to.have.length(1);
      expect(ended).to.deep.equal(['left']);
    } finally {
      await server.stop();
    }
  });

  it('is read on all pages, and a cursor that comes again ends the list', async () => {
    const names = await namesFrom({
      'tools/list': (res, { id, params }) =>
        send(
          res,
          answer(id, { tools: [{ ...ECHO, name: params?.cursor ?? 'first' }], nextCursor: 'next' }),
        ),
    });
    expect(names).to.deep.equal(['first', 'next']);
  });

  it('without the capability for tools is asked for them, and has none if it knows no such method', async () => {
    const initialize: Handle = (res, { id }) =>
      send(res, answer(id, { ...HANDSHAKE, capabilities: {} }));
    expect(await namesFrom({ initialize })).to.deep.equal(['echo']);
    const unknown: Handle = (res, { id }) => send(res, fault(id, -32_601));
    expect(await namesFrom({ initialize, 'tools/list': unknown })).to.deep.equal([]);
  });
});

describe('The Host header of requests of Gatehouse', () => {
  const onlyLocal: Handle = (res, { id }, { headers }) =>
    headers.host === 'localhost:8000'
      ? send(res, answer(id, HANDSHAKE))
      : send(res, 'Invalid Host header', 421);

  it('is the setting host', async () => {
    const { tools } = await withServer({ initialize: onlyLocal }, (origin) =>
      discover(origin, { host: 'localhost:8000' }),
    );
    expect(tools).to.have.length(1);
  });

  for (const status of [421, 403])
    it(`is named as the fault if the server answers ${status}`, async () => {
      const initialize: Handle = (res) => send(res, 'Invalid Host header: x', status);
      const found = await withServer({ initialize }, (origin) =>
        discover(origin).catch((error: unknown) => error),
      );
      expect(found).to.be.instanceOf(DiscoveryError);
      const { fault: kind, message } = found as DiscoveryError;
      expect([kind, message]).to.deep.equal([
        'wrong-host',
        `refuses the Host header (HTTP ${status}: Invalid Host header: x)`,
      ]);
    });

  it('is not the fault of a compressed response, which is named', async () => {
    const initialize: Handle = (res) =>
      void res
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'br' })
        .end('x');
    const found = await withServer({ initialize }, (origin) =>
      discover(origin).catch((error: unknown) => error),
    );
    expect((found as DiscoveryError).message).to.equal(
      'compresses its responses (Content-Encoding: br)',
    );
  });
});
