// Records the responses of the system, whichever process sends the requests.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';

const FINISHED = 'http.server.response.finish';

export type Traffic = {
  /** For example `POST /oauth/token 200`, in the order of the responses. */
  seen: string[];
  stop(): void;
};

/** Watches servers of this process at `origins`. */
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
