// Upstream MCP servers, built with either SDK version, whose list of tools tests change.
import { randomUUID } from 'node:crypto';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { startUpstream, type Upstream } from './upstream-server.ts';

export type ListedTool = {
  name: string;
  title?: string;
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean };
};

export type ChangingUpstream = Upstream & {
  /** Changes the list, and says so unless `isSilent`. */
  setTools(tools: readonly ListedTool[], options?: { isSilent?: boolean }): Promise<void>;
};

const CAPABILITIES = { capabilities: { tools: { listChanged: true } } };
const result = (name: string) => ({ content: [{ type: 'text' as const, text: name }] });

function complete(tools: readonly ListedTool[]) {
  return { tools: tools.map((tool) => ({ ...tool, inputSchema: { type: 'object' as const } })) };
}

export async function startChangingV1(first: readonly ListedTool[]): Promise<ChangingUpstream> {
  let tools = first;
  const sessions = new Map<
    string,
    { server: ServerV1; transport: StreamableHTTPServerTransport }
  >();
  const open = async () => {
    const server = new ServerV1({ name: 'changing-v1', version: '1.0.0' }, CAPABILITIES);
    server.setRequestHandler(ListToolsRequestSchema, () => complete(tools));
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => result(params.name));
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, { server, transport }),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await server.connect(transport);
    return transport;
  };
  const upstream = await startUpstream(() => async (req, res, body) => {
    const id = req.headers['mcp-session-id'];
    const known = sessions.get(String(id))?.transport;
    if (id !== undefined && !known) return void res.writeHead(404).end('no such session');
    return (known ?? (await open())).handleRequest(req, res, body);
  });
  return {
    ...upstream,
    async setTools(next, { isSilent = false } = {}) {
      tools = next;
      if (isSilent) return;
      for (const { server } of sessions.values()) await server.sendToolListChanged();
    },
  };
}

export async function startChangingV2(first: readonly ListedTool[]): Promise<ChangingUpstream> {
  let tools = first;
  const handler = createMcpHandler(() => {
    const server = new Server({ name: 'changing-v2', version: '1.0.0' }, CAPABILITIES);
    server.setRequestHandler('tools/list', () => complete(tools));
    server.setRequestHandler('tools/call', ({ params }) => result(params.name));
    return server;
  });
  const answer = toNodeHandler(handler);
  const upstream = await startUpstream(() => (req, res, body) => answer(req, res, body));
  return {
    ...upstream,
    async setTools(next, { isSilent = false } = {}) {
      tools = next;
      if (!isSilent) handler.notify.toolsChanged();
    },
  };
}
