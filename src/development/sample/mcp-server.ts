// The sample: an MCP server over Streamable HTTP, for revision 2026-07-28 and, without sessions, the 2025 revisions.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, Server } from '@modelcontextprotocol/server';
import type { AuthInfo, Tool as ListedTool } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import * as z from 'zod';
import { digestOf } from '../../audit/audit.ts';
import { setDeferredHeaders } from '../../http/deferred-headers.ts';
import { type Level, type Levels, recordsArguments } from '../../permission-levels.ts';
import type { Caller } from '../../gateway/authenticate.ts';
import { authorizeRequest, type RequiredLevel } from '../../gateway/authorize.ts';
import type { AuthenticatedCall } from '../../gateway/call.ts';
import { type CallAudit, noteAnswer, recordsOf } from '../../gateway/call-audit.ts';
import type { Extensions } from '../../gateway/extensions.ts';
import { membersOf } from '../../json-values.ts';
import {
  errorResponse,
  isRequest,
  type Message,
  requireMessages,
  SERVER_ERROR,
} from '../../gateway/json-rpc.ts';
import { recordCalls, type RecordedCall } from '../../gateway/record-calls.ts';
import type { McpHandler } from '../../gateway/mcp-handler.ts';
import { callTool, type CallOptions } from './call-tool.ts';
import { sharedDataset } from './dataset.ts';
import { type Tool, TOOLS } from './tools.ts';

export type SampleOptions = {
  productName: string;
  levels: Levels;
  version: string;
  extensions: Extensions;
  audit: CallAudit;
  logger: Logger;
};

export function openSample({ logger, audit, ...options }: SampleOptions) {
  const mcp = openMcpServer({
    ...options,
    dataset: sharedDataset,
    onError: (error) => logger.error({ err: error }, 'an MCP request failed'),
  });
  return {
    requiredBy: (message) => requiredBy(message, TOOL_LEVELS),
    refusesOneByOne: true,
    // Only requests with large bodies last, and these are limited by their bytes.
    acquire: () => ({ listen: () => undefined, release: () => undefined }),
    knownTools: (caller) => listedTools(options.levels, caller),
    async handle(call: RecordedCall & Pick<AuthenticatedCall, 'ctx' | 'body' | 'limited'>) {
      const { ctx, caller, body } = call;
      // The SDK would respond with the id `null`.
      const messages = ctx.method === 'POST' ? requireMessages(body) : [];
      if (call.limited) return respondToLimited(call, messages);
      refuseUnrunnable(options.levels, call, messages);
      const recording = { audit, levels: options.levels, logger };
      const unrecorded = await recordCalls(recording, call, messages);
      if (unrecorded) {
        ctx.body = Array.isArray(body) ? unrecorded : unrecorded[0];
        return;
      }
      setDeferredHeaders(ctx);
      ctx.respond = false;
      await mcp.handle(
        ctx.req,
        ctx.res,
        { caller, onAnswer: (answer) => noteAnswer(call, answer) },
        body,
      );
    },
    // Responses take milliseconds, and no stream stays open.
    end: () => undefined,
    follow: () => undefined,
    renewStreams: () => undefined,
    close: () => mcp.close(),
  } satisfies McpHandler;
}

const BATCH_LIMITED = {
  code: SERVER_ERROR,
  message: 'This call was not made, because a limit refused another call in the batch.',
};

/** The SDK writes its response by itself, so the others of the batch are refused too. */
function respondToLimited(
  { ctx, limited = [] }: Pick<AuthenticatedCall, 'ctx' | 'limited'>,
  messages: readonly Message[],
): void {
  const others = messages.filter(isRequest).map(({ id }) => errorResponse(id, BATCH_LIMITED));
  ctx.body = [...limited, ...others];
}

const TOOL_LEVELS: ReadonlyMap<string, Level> = new Map(
  TOOLS.map(({ name, level }) => [name, level]),
);

/** Of calls that no tool will run, which a client can repeat freely, the audit log has only the hash of the arguments. */
function refuseUnrunnable(levels: Levels, call: RecordedCall, messages: readonly Message[]): void {
  for (const record of recordsOf(call)) {
    const { name, arguments: given = {} } = messages[record.index]?.params ?? {};
    const tool = TOOLS.find((candidate) => candidate.name === name);
    if (record.outcome === undefined && tool?.input.safeParse(given).success) continue;
    record.outcome = 'refused';
    record.reason ??= tool ? 'invalid_request' : 'not_found';
    if (recordsArguments(levels, call.caller.level)) record.item.arguments = digestOf(given);
  }
}

/** Other methods and unknown tools need no level. */
export function requiredBy(
  message: unknown,
  toolLevels: ReadonlyMap<string, Level>,
): RequiredLevel | undefined {
  const { method, params } = membersOf(message);
  const { name: tool } = membersOf(params);
  const level =
    method === 'tools/call' && typeof tool === 'string' ? toolLevels.get(tool) : undefined;
  return level === undefined ? undefined : { level, tool: String(tool) };
}

/** For whom the server answers, and what is told each answer of a tool. */
export type ServedRequest = {
  caller: Caller;
  onAnswer?: (answer: Record<string, unknown>) => void;
};

export type McpServerOptions = CallOptions & { version: string; extensions: Extensions };

export type McpServer = {
  /** `body` is the parsed JSON; undefined if the request had none or it was invalid. */
  handle(
    req: IncomingMessage,
    res: ServerResponse,
    request: ServedRequest,
    body: unknown,
  ): Promise<void>;
  /** Ends active requests. The data set stays open. */
  close(): Promise<void>;
};

export function openMcpServer(options: McpServerOptions): McpServer {
  const handler = createMcpHandler(({ authInfo }) => serverFor(options, requestOf(authInfo)));
  const handle = toNodeHandler(handler, { onerror: options.onError });
  return {
    handle(req, res, request, body) {
      // The SDK copies the headers. It needs no token, and the token is the longest header.
      req.headers.authorization = undefined;
      return handle(Object.assign(req, { auth: authInfoOf(request) }), res, body);
    },
    close: () => handler.close(),
  };
}

/** Uses `Server`, because the SDK's `McpServer` turns every error into a tool result, and hides a tool only by denying that it exists. */
function serverFor(options: McpServerOptions, { caller, onAnswer }: ServedRequest): Server {
  const server = new Server(
    { name: 'gatehouse-analytics', title: options.productName, version: options.version },
    {
      capabilities: { tools: {}, extensions: options.extensions },
      instructions: instructions(caller),
    },
  );
  server.setRequestHandler('tools/list', () => ({ tools: listedTools(options.levels, caller) }));
  server.setRequestHandler('tools/call', async ({ params }, { mcpReq: { id } }) => {
    try {
      const result = await callTool(options, caller, params);
      onAnswer?.({ id, result });
      return result;
    } catch (error) {
      onAnswer?.({ id, error });
      throw error;
    }
  });
  return server;
}

function listedTools(levels: Levels, caller: Caller): ListedTool[] {
  const isOpen = ({ name, level }: Tool) =>
    authorizeRequest(levels, caller, { level, tool: name }).decision !== 'forbidden';
  return TOOLS.filter(isOpen).map(toListedTool);
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

function authInfoOf(request: ServedRequest): AuthInfo {
  const { tokenId, clientId, level } = request.caller;
  return { token: tokenId, clientId, scopes: [level], extra: { request } };
}

function requestOf(authInfo: AuthInfo | undefined): ServedRequest {
  if (!authInfo?.extra) throw new Error('the MCP request has no caller');
  return authInfo.extra.request as ServedRequest;
}
