// An upstream MCP server built with SDK version 1: sessions, event streams, the 2025 revisions.
import { randomUUID } from 'node:crypto';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import type { JWTPayload } from 'jose';
import { type Gate, startUpstream, type Upstream } from './upstream-server.ts';
import { LISTED, runTool } from './upstream-tools.ts';

export function startUpstreamV1(): Promise<Upstream> {
  return startUpstream((gate) => {
    const sessions = new Map<string, StreamableHTTPServerTransport>();
    return async (req, res, body, caller) => {
      const id = req.headers['mcp-session-id'];
      const known = sessions.get(String(id));
      if (id !== undefined && !known) return void res.writeHead(404).end('no such session');
      const transport = known ?? (await openSession(gate, sessions));
      const auth = { token: 'none', clientId: '', scopes: [], extra: { caller } };
      return transport.handleRequest(Object.assign(req, { auth }), res, body);
    };
  });
}

async function openSession(gate: Gate, sessions: Map<string, StreamableHTTPServerTransport>) {
  const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await serverFor(gate).connect(transport);
  return transport;
}

function serverFor(gate: Gate): Server {
  const server = new Server(
    { name: 'tools-v1', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true } } },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: LISTED }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) => {
    const { progressToken = 0 } = params._meta ?? {};
    return runTool(gate, {
      name: params.name,
      given: params.arguments ?? {},
      caller: extra.authInfo?.extra?.['caller'] as JWTPayload,
      signal: extra.signal,
      progress: (progress, total) =>
        extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress, total },
        }),
    });
  });
  return server;
}
