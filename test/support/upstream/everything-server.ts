// An MCP server with everything that the server scenarios of the conformance suite ask for, at every revision.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  localhostHostValidation,
  localhostOriginValidation,
  NodeStreamableHTTPServerTransport,
  toNodeHandler,
  toWebRequest,
} from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  type EventStore,
  isLegacyRequest,
  type JSONRPCMessage,
  McpServer,
  ResourceNotFoundError,
  type ServerNotifier,
} from '@modelcontextprotocol/server';
import {
  findPrompt,
  findResource,
  PROMPTS,
  RESOURCE_TEMPLATES,
  RESOURCES,
} from './everything-content.ts';
import { STATE, TOOLS } from './everything-tools.ts';

export type EverythingServer = { url: string; close(): Promise<void> };

const CACHE = { ttlMs: 60_000, cacheScope: 'public' } as const;
/** Milliseconds until a client asks again for a stream that the server closed. */
const RETRY_INTERVAL_MS = 20;

/** Has sessions with resumable streams at the 2025 revisions, and none at 2026-07-28. */
export async function startEverythingServer(): Promise<EverythingServer> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>();
  const modern = createMcpHandler(() => createEverything(modern.notify), {
    legacy: 'reject',
    keepAliveMs: 0,
  });
  const answerModern = toNodeHandler(modern);
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const body = await readJson(req);
    if (!(await isLegacyRequest(await toWebRequest(req, body))))
      return answerModern(req, res, body);
    const id = req.headers['mcp-session-id'];
    const known = sessions.get(String(id));
    if (id !== undefined && !known) return void res.writeHead(404).end();
    const transport = known ?? (await openSession(modern.notify, sessions));
    return transport.handleRequest(req, res, body);
  };
  const [isHostAllowed, isOriginAllowed] = [localhostHostValidation(), localhostOriginValidation()];
  const server = createServer((req, res) => {
    if (!isHostAllowed(req, res) || !isOriginAllowed(req, res)) return;
    answer(req, res).catch(() => res.destroy());
  });
  await once(server.listen(0, 'localhost'), 'listening');
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      await modern.close();
      await Promise.all([...sessions.values()].map((session) => session.close()));
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function readJson(req: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of req.setEncoding('utf8')) text += chunk;
  return text === '' ? undefined : JSON.parse(text);
}

async function openSession(
  notify: ServerNotifier,
  sessions: Map<string, NodeStreamableHTTPServerTransport>,
): Promise<NodeStreamableHTTPServerTransport> {
  const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
    eventStore: openEventStore(),
    retryInterval: RETRY_INTERVAL_MS,
  });
  await createEverything(notify).connect(transport);
  return transport;
}

/** Ids are numbers in the order of the events. */
function openEventStore(): EventStore {
  const events: { stream: string; message: JSONRPCMessage }[] = [];
  return {
    storeEvent: async (stream, message) => String(events.push({ stream, message }) - 1),
    async replayEventsAfter(last, { send }) {
      const stream = events[Number(last)]?.stream ?? '';
      for (const [index, event] of events.entries())
        if (index > Number(last) && event.stream === stream && 'jsonrpc' in event.message)
          await send(String(index), event.message);
      return stream;
    },
  };
}

function createEverything(notify: ServerNotifier): McpServer {
  const everything = new McpServer(
    { name: 'everything', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        completions: {},
        logging: {},
      },
      cacheHints: {
        'tools/list': CACHE,
        'prompts/list': CACHE,
        'resources/list': CACHE,
        'resources/templates/list': CACHE,
        'resources/read': CACHE,
      },
      requestState: STATE,
    },
  );
  for (const { name, inputSchema, run } of TOOLS)
    everything.registerTool(
      name,
      { description: `The tool ${name}`, inputSchema },
      (given, context) => run({ given, context, notify }),
    );
  const { server } = everything;
  server.setRequestHandler('resources/list', () => ({ resources: RESOURCES }));
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: RESOURCE_TEMPLATES,
  }));
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const found = findResource(uri);
    if (!found) throw new ResourceNotFoundError(uri);
    return { contents: [found] };
  });
  server.setRequestHandler('resources/subscribe', () => ({}));
  server.setRequestHandler('resources/unsubscribe', () => ({}));
  server.setRequestHandler('prompts/list', () => ({
    prompts: PROMPTS.map(({ name, given = [] }) => ({
      name,
      description: `The prompt ${name}`,
      arguments: given.map((argument) => ({ name: argument, required: true })),
    })),
  }));
  server.setRequestHandler('prompts/get', ({ params }, { mcpReq }) =>
    findPrompt(params.name).write(params.arguments ?? {}, mcpReq.inputResponses),
  );
  server.setRequestHandler('completion/complete', () => ({
    completion: { values: ['paris', 'park'], total: 2, hasMore: false },
  }));
  return everything;
}
