// What arrives at the system while a client is at work, whoever sends it: programs of their own too.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';

const FINISHED = 'http.server.response.finish';

export type Traffic = {
  /** `POST /oauth/token 200`, in the order of the answers. */
  seen: string[];
  stop(): void;
};

/** Servers of this process at `origins`, and nothing else. */
export function watchTraffic(origins: readonly string[]): Traffic {
  const hosts = new Set(origins.map((origin) => new URL(origin).host));
  const seen: string[] = [];
  const note = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    const path = request.url?.split('?', 1)[0];
    if (hosts.has(request.headers.host ?? ''))
      seen.push(`${request.method} ${path} ${response.statusCode}`);
  };
  subscribe(FINISHED, note);
  return { seen, stop: () => void unsubscribe(FINISHED, note) };
}
