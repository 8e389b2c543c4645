import type Koa from 'koa';
import type { HttpError } from '../http/errors.ts';
import type { RequestKind } from './active-requests.ts';
import type { Caller } from './authenticate.ts';
import type { RequiredLevel } from './authorize.ts';
import type { Hold } from './held-bytes.ts';

export type AuthorizedRequest = {
  caller: Caller;
  /** The parsed JSON; undefined if the request had none or it was invalid. */
  body: unknown;
  /** Returns 403 `insufficient_scope` if the person can grant the highest level in the scope. Absent for minted tokens. */
  stepUpTo?: (scope: string) => HttpError | undefined;
  /** Authenticates the request again. Rejects with the error that a new request would get. */
  revalidate: () => Promise<unknown>;
  slot: Slot;
  /** Of the messages. The handler changes it, and the caller releases it when the response has ended. */
  hold: Hold;
};

/** An open request of a caller, which counts from before its body is read. */
export type Slot = {
  /** The request only listens. Throws an InBandError if so many more of these may not be open. */
  listen(): void;
  release(): void;
};

/** Handles authorized MCP requests: the built-in sample, or the proxy to the operator's MCP server. */
export type McpHandler = {
  /** The highest level that the messages in `body` need; undefined if they need none. */
  requiredLevel(body: unknown): RequiredLevel | undefined;
  /** Throws an InBandError if the caller has too many open requests. */
  acquire(caller: Caller, kind: RequestKind): Slot;
  /** Throws HttpError before the response starts. May drop the body from the request. */
  handle(ctx: Koa.Context, request: AuthorizedRequest): Promise<void>;
  /** Ends the active requests of a kind with an error response, because the process stops. */
  end(kind: RequestKind): void;
  close(): Promise<void>;
};
