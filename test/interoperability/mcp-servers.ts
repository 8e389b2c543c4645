// Servers of the official MCP SDKs, as they answer what differs between them. Those of the TypeScript SDKs run; the others are recorded from their sources.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { listenOnLoopback } from '../support/loopback-server.ts';

/** A body is sent as JSON, and a text as plain text. `ID` stands for the id of the request. */
type Answer = { status: number; body: unknown };

export type RecordedServer = {
  /** Where the SDK does what is recorded here. */
  source: string;
  /** To `server/discover` before `initialize`. */
  probe: Answer;
  /** Starts a session for each request without one, and sends its id with errors too. */
  startsSessions?: true;
  /** To a `Host` that is not localhost. */
  wrongHost?: Answer;
  sessionId: string;
  /** To a session that it no longer has. */
  lostSession: Answer;
  /** Not of the SDK, but of .NET's StreamWriter with Encoding.UTF8 in middleware around it. */
  writesByteOrderMark?: true;
  /** The line ending of its events. */
  lineEnding: '\n' | '\r\n';
};

const ID = '$id';
const fault = (code: number, message: string, id: unknown = null) => ({
  jsonrpc: '2.0',
  ...(id === undefined ? {} : { id }),
  error: { code, message },
});
const UUID = '24d1ba34-c639-4b08-8ee9-27e710d9b549';
const SDKS = 'https://github.com/modelcontextprotocol';

export const RECORDED: Record<string, RecordedServer> = {
  python: {
    source: `${SDKS}/python-sdk/blob/v1.x/src/mcp/server/streamable_http.py`,
    probe: {
      status: 400,
      body: fault(-32_600, 'Bad Request: Unsupported protocol version: 2026-07-28', 'server-error'),
    },
    startsSessions: true,
    wrongHost: { status: 421, body: 'Invalid Host header' },
    sessionId: UUID.replaceAll('-', ''),
    lostSession: { status: 404, body: fault(-32_600, 'Session not found', 'server-error') },
    // sse-starlette
    lineEnding: '\r\n',
  },
  go: {
    source: `${SDKS}/go-sdk/blob/main/mcp/streamable.go`,
    probe: {
      status: 400,
      body: 'Bad Request: Unsupported protocol version (supported versions: 2025-06-18,2025-03-26)\n',
    },
    wrongHost: { status: 403, body: 'Forbidden: invalid Host header "tools.internal:8080"\n' },
    sessionId: 'VLZG4XNUZQ3KJ6SHBVHGQW6Q4I',
    lostSession: { status: 404, body: 'session not found\n' },
    lineEnding: '\n',
  },
  'c#': {
    source: `${SDKS}/csharp-sdk/blob/main/src/ModelContextProtocol.AspNetCore/StreamableHttpHandler.cs`,
    probe: { status: 200, body: fault(-32_601, "Method 'server/discover' is not available.", ID) },
    startsSessions: true,
    // Of ASP.NET Core, with AllowedHosts.
    wrongHost: { status: 400, body: 'Bad Request - Invalid Hostname' },
    sessionId: 'k3Zl0pYtq0yWc1xRZ9s2Jg',
    lostSession: { status: 404, body: fault(-32_001, 'Session not found', undefined) },
    writesByteOrderMark: true,
    lineEnding: '\n',
  },
  java: {
    source: `${SDKS}/java-sdk/blob/main/mcp-core/src/main/java/io/modelcontextprotocol/server/transport/HttpServletStreamableServerTransportProvider.java`,
    // The error is a serialized exception.
    probe: {
      status: 400,
      body: {
        jsonRpcError: { code: -32_601, message: 'Session ID required in mcp-session-id header' },
      },
    },
    wrongHost: { status: 421, body: 'Invalid Host header' },
    sessionId: UUID,
    lostSession: {
      status: 404,
      body: { jsonRpcError: { code: -32_603, message: `Session not found: ${UUID}` } },
    },
    lineEnding: '\n',
  },
  rust: {
    source: `${SDKS}/rust-sdk/blob/main/crates/rmcp/src/transport/streamable_http_server/tower.rs`,
    probe: { status: 422, body: 'Unexpected message, expect initialize request' },
    wrongHost: { status: 403, body: 'Forbidden: Host header is not allowed' },
    sessionId: UUID,
    lostSession: { status: 404, body: 'Not Found: Session not found' },
    lineEnding: '\n',
  },
};

const TOOLS = { tools: [{ name: 'echo', inputSchema: { type: 'object' as const } }] };
const ECHO = { content: [{ type: 'text' as const, text: 'echo' }] };
const CAPABILITIES = { capabilities: { tools: {} } };

export type PlayedServer = {
  url: string;
  /** Ends all sessions, as a restart does. */
  forget(): void;
  /** The ids of sessions that are open. */
  sessions: ReadonlySet<string>;
  stop(): Promise<void>;
};

type Handle = (req: IncomingMessage, res: ServerResponse, text: string) => unknown;

async function play(
  handle: Handle,
  sessions: Set<string>,
  forget: () => void,
): Promise<PlayedServer> {
  const server = await listenOnLoopback(
    createServer(async (req, res) => handle(req, res, await readText(req))),
  );
  return { url: `${server.origin}/mcp`, sessions, forget, stop: server.stop };
}

const isLocal = ({ headers }: IncomingMessage) => /^localhost:\d+$/.test(headers.host ?? '');

/** Plays a recorded server. With `checksHost`, it accepts `localhost` only. */
export function playRecorded(
  recorded: RecordedServer,
  { checksHost = false } = {},
): Promise<PlayedServer> {
  const sessions = new Set<string>();
  const send = (res: ServerResponse, { status, body }: Answer, id: unknown = null) => {
    if (typeof body === 'string')
      return res.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(body);
    const json = JSON.stringify(body).replace(`"${ID}"`, JSON.stringify(id));
    const isEvent = status === 200;
    const events = ['event: message', `data: ${json}`, '', ''].join(recorded.lineEnding);
    const mark = recorded.writesByteOrderMark ? '\uFEFF' : '';
    res.writeHead(status, { 'content-type': isEvent ? 'text/event-stream' : 'application/json' });
    return res.end(mark + (isEvent ? events : json));
  };
  const handle: Handle = (req, res, text) => {
    if (checksHost && recorded.wrongHost && !isLocal(req)) return send(res, recorded.wrongHost);
    const session = req.headers['mcp-session-id'];
    if (req.method === 'DELETE') return void (sessions.delete(String(session)), res.end());
    if (req.method !== 'POST') return void res.writeHead(405).end();
    const { id, method, params } = JSON.parse(text) as Record<string, unknown>;
    if (session !== undefined && !sessions.has(String(session)))
      return send(res, recorded.lostSession, id);
    if (session === undefined && (method === 'initialize' || recorded.startsSessions)) {
      const started = method === 'initialize' ? recorded.sessionId : randomUUID();
      sessions.add(started);
      res.setHeader('mcp-session-id', started);
    }
    // Stricter than some of them.
    if (params === null) return send(res, { status: 400, body: 'params must be an object' }, id);
    if (method === 'server/discover') return send(res, recorded.probe, id);
    if (id === undefined) return void res.writeHead(202).end();
    const results: Record<string, unknown> = {
      initialize: {
        protocolVersion: '2025-06-18',
        ...CAPABILITIES,
        serverInfo: { name: 'recorded', version: '1' },
      },
      'tools/list': TOOLS,
      'tools/call': ECHO,
    };
    return send(
      res,
      { status: 200, body: { jsonrpc: '2.0', id: ID, result: results[String(method)] } },
      id,
    );
  };
  return play(handle, sessions, () => sessions.clear());
}

/** A server of version 1 of the TypeScript SDK, with sessions. */
export function playTypeScriptV1({ checksHost = false } = {}): Promise<PlayedServer> {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const sessions = new Set<string>();
  const open = async () => {
    const server = new ServerV1({ name: 'v1', version: '1' }, CAPABILITIES);
    server.setRequestHandler(ListToolsRequestSchema, () => TOOLS);
    server.setRequestHandler(CallToolRequestSchema, () => ECHO);
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      enableDnsRebindingProtection: checksHost,
      allowedHosts: ['localhost:8000'],
      onsessioninitialized: (id) => void (transports.set(id, transport), sessions.add(id)),
      onsessionclosed: (id) => void (transports.delete(id), sessions.delete(id)),
    });
    await server.connect(transport);
    return transport;
  };
  const handle: Handle = async (req, res, text) => {
    const id = req.headers['mcp-session-id'];
    const known = transports.get(String(id));
    if (id !== undefined && !known)
      return res
        .writeHead(404, { 'content-type': 'application/json' })
        .end(JSON.stringify(fault(-32_001, 'Session not found')));
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    return (known ?? (await open())).handleRequest(req, res, body);
  };
  return play(handle, sessions, () => {
    transports.clear();
    sessions.clear();
  });
}

/** A server of version 2 of the TypeScript SDK, without sessions. */
export function playTypeScriptV2({ checksHost = false } = {}): Promise<PlayedServer> {
  const answer = toNodeHandler(
    createMcpHandler(() => {
      const server = new Server({ name: 'v2', version: '1' }, CAPABILITIES);
      server.setRequestHandler('tools/list', () => TOOLS);
      server.setRequestHandler('tools/call', () => ECHO);
      return server;
    }),
  );
  const isHostAllowed = localhostHostValidation();
  const handle: Handle = (req, res, text) => {
    // The guard accepts 127.0.0.1 too.
    if (checksHost && !isLocal(req)) req.headers.host = 'tools.internal';
    if (checksHost && !isHostAllowed(req, res)) return undefined;
    return answer(req, res, text === '' ? undefined : JSON.parse(text));
  };
  return play(handle, new Set(), () => undefined);
}
