// An upstream MCP server whose responses tests control.
import type { ServerResponse } from 'node:http';
import { type UpstreamHandler, startUpstream, type Upstream } from './upstream-server.ts';

export type ScriptedUpstream = Upstream & {
  /** Handles every request from now on. */
  respondWith(handle: UpstreamHandler): void;
  /** Handles Gatehouse's own requests, which otherwise get the normal response. */
  respondToGatehouse(handle: UpstreamHandler): void;
};

export async function startScriptedUpstream(): Promise<ScriptedUpstream> {
  let current: UpstreamHandler = echo;
  let own: UpstreamHandler = echo;
  const upstream = await startUpstream(
    () =>
      (...call) =>
        (call[3].sub === 'gatehouse' ? own : current)(...call),
  );
  return {
    ...upstream,
    respondWith: (handle) => void (current = handle),
    respondToGatehouse: (handle) => void (own = handle),
  };
}

type Request = { id?: unknown; method?: string };

/** Responds to every request with an empty result, and to other messages with 202. */
export const echo: UpstreamHandler = (_req, res, body) => {
  const requests = [body].flat().filter((message) => (message as Request)?.id !== undefined);
  if (requests.length === 0) return res.writeHead(202).end();
  const answers = requests.map((message) => resultFor(message as Request));
  return json(res, Array.isArray(body) ? answers : answers[0]);
};

export function resultFor({ id }: Request, result: object = {}): object {
  return { jsonrpc: '2.0', id, result };
}

export function json(res: ServerResponse, body: unknown, status = 200): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Starts an event stream and writes each of `events` unchanged. */
export function stream(res: ServerResponse, ...events: string[]): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.flushHeaders();
  for (const event of events) res.write(event);
}

export function event(message: unknown): string {
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`;
}

/** A message that requires no level. */
export const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };

export function toolCall(name: unknown, id: unknown = 1, given: object = {}): object {
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: given } };
}
