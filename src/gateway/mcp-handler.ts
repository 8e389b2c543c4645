import type { RequestKind } from './active-requests.ts';
import type { Caller } from './authenticate.ts';
import type { RequiredLevel } from './authorize.ts';
import type { AuthenticatedCall } from './call.ts';
import type { ReadForCaller } from './upstream/caller-readings.ts';
import type { Settings } from '../settings/settings.ts';
import type { LeadsToUpstream } from '../settings/upstreams.ts';

/** An open request of a caller, which counts from before its body is read. */
export type Slot = {
  /** The request only listens. Throws an InBandError if so many more of these may not be open. */
  listen(): void;
  release(): void;
};

/** Serves calls of authorized callers: the built-in sample, or the proxy to the operator's MCP server. */
export type McpHandler = {
  /** The level that a message needs, which may be invalid; undefined if it needs none. */
  requiredBy(message: unknown): RequiredLevel | undefined;
  /** Call before `requiredBy` with the messages: reads the tools as their caller sees them, if one of them calls a tool that no list had. */
  readToolsFor?: ReadForCaller;
  /** Throws an InBandError if the caller has too many open requests. */
  acquire(caller: Caller, kind: RequestKind): Slot;
  /** Whether a member that an object of a request has twice is refused. */
  refusesRepeated?: () => boolean;
  /** Whether the other calls of a batch are made if one is refused for its level. */
  refusesOneByOne?: true;
  /** The tools that the caller may reach, as far as they are known without asking the MCP server. */
  knownTools(caller: Caller): object[];
  /** Throws HttpError before the response starts. May drop the body from the call. */
  handle(call: AuthenticatedCall): Promise<void>;
  /** Ends the active requests of a kind with an error response, because the process stops. */
  end(kind: RequestKind): void;
  /** New calls go to the handler of these settings, whose rights also apply here. */
  follow(inForce: Settings): void;
  /** Ends listening requests within so many milliseconds, at different times, so that clients send new ones. */
  renewStreams(milliseconds: number): void;
  close(): Promise<void>;
};

/** Of all MCP servers of the settings. */
export type McpHandlers = {
  /** The handler of the only MCP server that a connector or a minted token leads to, which the settings must have. */
  serving(record: LeadsToUpstream): McpHandler | Promise<McpHandler>;
  /** Resolves after the first attempt to read the tools of each upstream. */
  discover(signal: AbortSignal): Promise<void>;
} & Pick<McpHandler, 'end' | 'follow' | 'renewStreams' | 'close'>;
