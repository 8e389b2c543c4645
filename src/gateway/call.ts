// A request to a connect link, or with a minted token to the server itself, as its steps in serve.ts and its error response see it.
import type Koa from 'koa';
import type { Connector } from '../links/connector.ts';
import type { HttpError } from '../http/errors.ts';
import { type RequestContext, requestContext } from '../http/request-context.ts';
import type { MintedToken } from '../links/minted-tokens.ts';
import type { Caller } from './authenticate.ts';
import type { RequiredLevel } from './authorize.ts';
import type { CallRecords } from './call-audit.ts';
import type { Hold } from './held-bytes.ts';
import type { MessageId } from './json-rpc.ts';
import type { McpHandler, Slot } from './mcp-handler.ts';
import type { Outline } from './request-outline.ts';

export type Call = {
  readonly ctx: Koa.Context;
  /** Of the connect link; undefined with a minted token. */
  readonly connectorId: string | undefined;
  /** Once the body was read: its requests, and its id if it is a single message, which may be invalid otherwise. */
  outline?: Outline;
  messageId?: MessageId | undefined;
  /** The responses to messages of a batch that a limit refused. The body is without them. */
  limited?: readonly Record<string, unknown>[];
  /** What the audit log says about it, once the messages were read. */
  recorded?: CallRecords;
  /** The JSON-RPC error with which the MCP server refused the request. */
  upstreamError?: object;
};

/** What authentication found: with a token of a connect link its connector, and with a minted token its record. */
export type Access = { caller: Caller } & (
  | { connector: Connector; mintedToken?: undefined }
  | { mintedToken: MintedToken; connector?: undefined }
);

export type AuthenticatedCall = Call &
  Access & {
    /** Leads to the MCP server. */
    handler: McpHandler;
    /** Authenticates the request again. Rejects with the error that a new request would get. */
    revalidate: () => Promise<Access>;
    /** Revalidates if a record or the settings changed since the request was authenticated. Undefined otherwise. */
    revalidateIfChanged: () => Promise<Access> | undefined;
    /** Returns 403 `insufficient_scope` if the person can grant the highest level in the scope. */
    stepUpTo: (scope: string) => HttpError | undefined;
    /** Of the open requests of the caller, from before the body is read until the response has ended. */
    slot: Slot;
    /** Of the messages. The handler changes it. */
    hold: Hold;
    /** The parsed JSON; undefined if the request had none or it was invalid. The handler may drop it. */
    body: unknown;
    /** The number of `tools/call` in the body. */
    toolCalls: number;
    /** What each message of the body needs. */
    required: readonly (RequiredLevel | undefined)[];
  };

/** All members from the beginning: adding them one by one takes longer, and memory for each. */
export function startCall(ctx: Koa.Context, connectorId: string | undefined): Call {
  const members: Record<keyof Call | keyof AuthenticatedCall, unknown> = {
    ctx,
    connectorId,
    outline: undefined,
    messageId: undefined,
    limited: undefined,
    recorded: undefined,
    upstreamError: undefined,
    caller: undefined,
    connector: undefined,
    mintedToken: undefined,
    handler: undefined,
    revalidate: undefined,
    revalidateIfChanged: undefined,
    stepUpTo: undefined,
    slot: undefined,
    hold: undefined,
    body: undefined,
    toolCalls: undefined,
    required: undefined,
  };
  const call = members as Call;
  contextOf(ctx).call = call;
  return call;
}

/** The call of a request. Undefined if the request was refused before its route. */
export function callOf(ctx: Koa.Context): Call | undefined {
  return contextOf(ctx).call;
}

function contextOf(ctx: Koa.Context): RequestContext & { call?: Call } {
  return requestContext(ctx);
}
