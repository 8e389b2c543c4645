// The MCP server of the analytics sample over Streamable HTTP: revision 2026-07-28 and, without sessions, the 2025 revisions.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import type { AuthInfo, Tool as ListedTool } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { callTool } from './analytics/call.ts';
import type { CallOptions } from './analytics/call.ts';
import type { Tool } from './analytics/tool.ts';
import { TOOLS } from './analytics/tools.ts';
import { decide } from './level.ts';
import type { Caller } from './level.ts';

export type McpOptions = CallOptions & { version: string };

export type Mcp = {
  /** Answers one HTTP request. `body` is the parsed JSON, or undefined when there was none or it was not JSON. */
  handle(req: IncomingMessage, res: ServerResponse, caller: Caller, body: unknown): Promise<void>;
  /** Ends what is being answered. The data set stays open. */
  close(): Promise<void>;
};

export function openMcp(options: McpOptions): Mcp {
  const handler = createMcpHandler(({ authInfo }) => serverFor(options, callerOf(authInfo)));
  const answer = toNodeHandler(handler, { onerror: options.onError });
  return {
    handle(req, res, caller, body) {
      // The token stays outside: nothing in there needs it, and it is the longest of the headers that would be copied.
      req.headers.authorization = undefined;
      return answer(Object.assign(req, { auth: authInfoOf(caller) }), res, body);
    },
    close: () => handler.close(),
  };
}

/**
 * A server that answers this one caller. Not the SDK's `McpServer`: that turns every refusal into a tool result, and hides a
 * tool only by denying that it exists.
 */
function serverFor(options: McpOptions, caller: Caller): Server {
  const server = new Server(
    { name: 'gatehouse-analytics', title: options.productName, version: options.version },
    { capabilities: { tools: {} }, instructions: instructions(caller) },
  );
  server.setRequestHandler('tools/list', () => ({
    tools: TOOLS.filter(({ level }) => decide(caller, level) !== 'never').map(listed),
  }));
  server.setRequestHandler('tools/call', ({ params }) => callTool(options, caller, params));
  return server;
}

function listed({ name, title, description, input }: Tool): ListedTool {
  const { $schema: _, ...schema } = z.toJSONSchema(input, { io: 'input' });
  return {
    name,
    title,
    description,
    inputSchema: schema as ListedTool['inputSchema'],
    annotations: { readOnlyHint: true, openWorldHint: false },
  };
}

function instructions({ level }: Caller): string {
  return (
    'A sample: one year of a fitness club. What a result shows depends on the permission level, here ' +
    `"${level}": analytics shows figures about groups only, operations adds names, admin adds e-mail and phone, ` +
    'full adds payment details, and every call made with full is recorded. Fields above the level are left out.'
  );
}

function authInfoOf(caller: Caller): AuthInfo {
  const { tokenId, clientId, level } = caller;
  return { token: tokenId, clientId, scopes: [level], extra: { caller } };
}

function callerOf(authInfo: AuthInfo | undefined): Caller {
  if (!authInfo?.extra) throw new Error('an MCP request came without its caller');
  return authInfo.extra.caller as Caller;
}
