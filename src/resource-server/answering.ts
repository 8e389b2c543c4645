// What answers the calls that were checked: the built-in sample, or the operator's own MCP server.
import type Koa from 'koa';
import type { Caller, Needed } from './level.ts';
import type { CallKind } from './open-calls.ts';

export type CheckedCall = {
  caller: Caller;
  /** The parsed JSON, or undefined when there was none or it was not JSON. */
  body: unknown;
  /** Rejects with what a new call like this one would be refused with. */
  requireStillGood: () => Promise<unknown>;
};

export type Answering = {
  /** The highest level that the messages in `body` need; undefined when they need none. */
  neededLevel(body: unknown): Needed | undefined;
  /** Throws HttpError before anything is sent. */
  answer(ctx: Koa.Context, call: CheckedCall): Promise<void>;
  /** Ends the open calls of this kind with an answer, because the process stops. */
  end(kind: CallKind): void;
  close(): Promise<void>;
};
