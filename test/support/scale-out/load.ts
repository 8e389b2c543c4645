// Connected clients that refresh and call in a loop; every response is recorded.
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../until.ts';
import { connect, type Connection } from '../connection.ts';
import { callTool } from '../mcp.ts';
import { refresh } from '../oauth.ts';
import type { System } from '../system.ts';

export type LoadResponse = {
  what: 'refresh' | 'call';
  client: number;
  status: number;
  /** The error, or the text of a failed call. */
  detail: string;
  /** Milliseconds of `performance.now()`. */
  startedMs: number;
};

export type Load = {
  responses: readonly LoadResponse[];
  /** Resolves when every client has had a successful refresh and call that started after now. */
  waitForProgress(seconds?: number): Promise<void>;
  /** Resolves when no request is pending. */
  stop(): Promise<void>;
};

/** Long enough to leave the processes idle most of the time. */
const PAUSE_MS = 200;

/** One after the other, because the clients belong to one person, whose browsers share a session. */
export async function connectClients(
  system: System,
  connector: { link: string },
  count: number,
): Promise<Connection[]> {
  const connections: Connection[] = [];
  while (connections.length < count) connections.push(await connect(system, connector));
  return connections;
}

/** The clients call the tool `tool`, which needs no arguments. */
export function startLoad(connections: readonly Connection[], tool = 'club_overview'): Load {
  const responses: LoadResponse[] = [];
  const stopped = new AbortController();
  const work = async (connection: Connection, client: number) => {
    const { link, server } = connection;
    let { accessToken, refreshToken } = connection;
    while (!stopped.signal.aborted) {
      let startedMs = performance.now();
      const { status, body } = await refresh(server, connection.client, refreshToken);
      responses.push({ what: 'refresh', client, status, detail: body.error ?? '', startedMs });
      accessToken = body.access_token ?? accessToken;
      refreshToken = body.refresh_token ?? refreshToken;
      startedMs = performance.now();
      const answer = await callTool(link, accessToken, tool);
      const detail = answer.status === 200 ? '' : answer.text;
      responses.push({ what: 'call', client, status: answer.status, detail, startedMs });
      await delay(PAUSE_MS);
    }
  };
  const working = Promise.all(connections.map(work));
  // `waitForProgress` times out if a client fails, and `stop` rejects with its error.
  working.catch(() => undefined);

  return {
    responses,
    async waitForProgress(seconds) {
      const now = performance.now();
      const fine = () =>
        responses.filter(({ status, startedMs }) => status === 200 && startedMs > now);
      const done = () => new Set(fine().map(({ what, client }) => `${what} ${client}`)).size;
      await until('every client to succeed', () => done() === 2 * connections.length, seconds);
    },
    async stop() {
      stopped.abort();
      await working;
    },
  };
}

/** Responses that were neither successful nor a 503 that tells the client to wait. */
export function unexpectedResponses(responses: readonly LoadResponse[]): LoadResponse[] {
  return responses.filter(({ what, status, detail }) => {
    if (status === 200) return false;
    return status !== 503 || (what === 'refresh' && detail !== 'temporarily_unavailable');
  });
}
