// An MCP server with the given tools that accepts everybody, as operators have before Gatehouse is in front of it.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { listenOnLoopback } from '../support/loopback-server.ts';

export type ListedTool = { name: string; title?: string; annotations?: object };

export type OpenUpstream = { url: string; stop: () => Promise<void> };

const INFO = { name: 'open-tools', version: '1.0.0' };
const CAPABILITIES = { capabilities: { tools: {} } };

function listOf(tools: readonly ListedTool[]) {
  return { tools: tools.map((tool) => ({ ...tool, inputSchema: { type: 'object' as const } })) };
}

function resultOf(name: string) {
  return { content: [{ type: 'text' as const, text: `called ${name}` }] };
}

/** Speaks 2026-07-28, and the 2025 revisions without sessions. `accepts` runs before each response; requests that it does not accept get 403. */
export async function startOpenUpstream(
  tools: readonly ListedTool[],
  accepts = (_request: IncomingMessage) => true,
): Promise<OpenUpstream> {
  const handler = createMcpHandler(() => {
    const server = new Server(INFO, CAPABILITIES);
    server.setRequestHandler('tools/list', () => listOf(tools));
    server.setRequestHandler('tools/call', ({ params }) => resultOf(params.name));
    return server;
  });
  const answer = toNodeHandler(handler);
  const server = createServer((request, response) => {
    return accepts(request) ? answer(request, response) : response.writeHead(403).end();
  });
  const { origin, stop } = await listenOnLoopback(server);
  return { url: `${origin}/mcp`, stop };
}

/** Speaks 2025-11-25 with sessions. */
export async function startOpenUpstreamV1(tools: readonly ListedTool[]): Promise<OpenUpstream> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const open = async () => {
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    const server = new ServerV1(INFO, CAPABILITIES);
    server.setRequestHandler(ListToolsRequestSchema, () => listOf(tools));
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => resultOf(params.name));
    await server.connect(transport);
    return transport;
  };
  const server = createServer(async (request, response) => {
    const known = sessions.get(String(request.headers['mcp-session-id']));
    await (known ?? (await open())).handleRequest(request, response);
  });
  const { origin, stop } = await listenOnLoopback(server);
  return { url: `${origin}/mcp`, stop };
}
