// The sample: an MCP server over Streamable HTTP, for revision 2026-07-28 and, without sessions, the 2025 revisions.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import type { AuthInfo, Tool as ListedTool } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { z } from 'zod';
import { setDeferredHeaders } from '../../http/deferred-headers.ts';
import type { Level, Levels } from '../../permission-levels.ts';
import type { Caller } from '../../gateway/authenticate.ts';
import { authorize, highestRequired, type RequiredLevel } from '../../gateway/authorize.ts';
import type { AuthenticatedCall } from '../../gateway/call.ts';
import type { AuditCall } from '../../gateway/call-audit.ts';
import type { Extensions } from '../../gateway/extensions.ts';
import { membersOf } from '../../json-values.ts';
import { requireMessages } from '../../gateway/json-rpc.ts';
import type { McpHandler } from '../../gateway/mcp-handler.ts';
import { callTool, type CallOptions } from './call-tool.ts';
import { sharedDataset } from './dataset.ts';
import { type Tool, TOOLS } from './tools.ts';

export type SampleOptions = {
  productName: string;
  levels: Levels;
  version: string;
  extensions: Extensions;
  audit: AuditCall;
  logger: Logger;
};

export function openSample({ logger, ...options }: SampleOptions) {
  const mcp = openMcpServer({
    ...options,
    dataset: sharedDataset,
    onError: (error) => logger.error({ err: error }, 'an MCP request failed'),
  });
  return {
    requiredLevel: (body: unknown) => requiredLevel(options.levels, body, TOOL_LEVELS),
    // Only requests with large bodies last, and these are limited by their bytes.
    acquire: () => ({ listen: () => undefined, release: () => undefined }),
    knownTools: (caller) => listedTools(options.levels, caller),
    async handle({ ctx, caller, body }: Pick<AuthenticatedCall, 'ctx' | 'caller' | 'body'>) {
      // The SDK would respond with the id `null`.
      if (ctx.method === 'POST') requireMessages(body);
      setDeferredHeaders(ctx);
      ctx.respond = false;
      await mcp.handle(ctx.req, ctx.res, caller, body);
    },
    // Responses take milliseconds, and no stream stays open.
    end: () => undefined,
    follow: () => undefined,
    renewStreams: () => undefined,
    close: () => mcp.close(),
  } satisfies McpHandler;
}

const TOOL_LEVELS: ReadonlyMap<string, Level> = new Map(
  TOOLS.map(({ name, level }) => [name, level]),
);

/** The highest level of the tools that a body calls. Other methods and unknown tools need none. */
export function requiredLevel(
  levels: Levels,
  body: unknown,
  toolLevels: ReadonlyMap<string, Level>,
): RequiredLevel | undefined {
  return highestRequired(levels, body, (message) => {
    const { method, params } = membersOf(message);
    const { name: tool } = membersOf(params);
    const level =
      method === 'tools/call' && typeof tool === 'string' ? toolLevels.get(tool) : undefined;
    return level === undefined ? undefined : { level, tool: String(tool) };
  });
}

export type McpServerOptions = CallOptions & { version: string; extensions: Extensions };

export type McpServer = {
  /** `body` is the parsed JSON; undefined if the request had none or it was invalid. */
  handle(req: IncomingMessage, res: ServerResponse, caller: Caller, body: unknown): Promise<void>;
  /** Ends active requests. The data set stays open. */
  close(): Promise<void>;
};

export function openMcpServer(options: McpServerOptions): McpServer {
  const handler = createMcpHandler(({ authInfo }) => serverFor(options, callerOf(authInfo)));
  const handle = toNodeHandler(handler, { onerror: options.onError });
  return {
    handle(req, res, caller, body) {
      // The SDK copies the headers. It needs no token, and the token is the longest header.
      req.headers.authorization = undefined;
      return handle(Object.assign(req, { auth: authInfoOf(caller) }), res, body);
    },
    close: () => handler.close(),
  };
}

/** Uses `Server`, because the SDK's `McpServer` turns every error into a tool result, and hides a tool only by denying that it exists. */
function serverFor(options: McpServerOptions, caller: Caller): Server {
  const server = new Server(
    { name: 'gatehouse-analytics', title: options.productName, version: options.version },
    {
      capabilities: { tools: {}, extensions: options.extensions },
      instructions: instructions(caller),
    },
  );
  server.setRequestHandler('tools/list', () => ({ tools: listedTools(options.levels, caller) }));
  server.setRequestHandler('tools/call', ({ params }) => callTool(options, caller, params));
  return server;
}

function listedTools(levels: Levels, caller: Caller): ListedTool[] {
  return TOOLS.filter(({ level }) => authorize(levels, caller, level) !== 'forbidden').map(
    toListedTool,
  );
}

function toListedTool({ name, title, description, input }: Tool): ListedTool {
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
    `"${level}": analytics shows figures about groups only, operations adds names, admin adds email and phone, ` +
    'full adds payment details, and every call made with full is recorded. Fields above the level are left out.'
  );
}

function authInfoOf(caller: Caller): AuthInfo {
  const { tokenId, clientId, level } = caller;
  return { token: tokenId, clientId, scopes: [level], extra: { caller } };
}

function callerOf(authInfo: AuthInfo | undefined): Caller {
  if (!authInfo?.extra) throw new Error('the MCP request has no caller');
  return authInfo.extra.caller as Caller;
}
