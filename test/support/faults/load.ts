// Clients under load: some refresh and call continuously, one connects, one connects and revokes.
import { setTimeout as delay } from 'node:timers/promises';
import { openBrowser } from '../browser.ts';
import { until } from '../until.ts';
import { connect, type Connection } from '../connection.ts';
import { callTool } from '../mcp.ts';
import { refresh } from '../oauth.ts';
import { SOAK } from '../soak.ts';
import type { System } from '../system.ts';

export type Load = {
  /** Every connection that was not revoked, with its latest tokens. */
  connections: readonly Connection[];
  /** Connections whose revocation was confirmed. */
  revoked: readonly Connection[];
  /** Resolves when each steady client has completed `count` more rounds, with any result. */
  rounds(count: number): Promise<void>;
  stop(): Promise<void>;
};

/** In the usual run, failing requests that show nothing new would take most of the CPU. */
const PAUSE_MS = SOAK ? 30 : 150;
const BASE_TIMEOUT_SECONDS = 30;
const ROUND_TIMEOUT_SECONDS = 3;

export type LoadOptions = {
  /** Connections that refresh and call. */
  steady: readonly Connection[];
  /** Whether one more client connects again and again, and another connects and revokes (default true). */
  connecting?: boolean;
};

export function startLoad(
  system: System,
  connector: { link: string },
  { steady, connecting = true }: LoadOptions,
): Load {
  const stopped = new AbortController();
  const connections = [...steady];
  const revoked: Connection[] = [];
  const repeat = async (round: () => Promise<void>, onRound = () => {}) => {
    while (!stopped.signal.aborted) {
      // Errors are in the history.
      await round().catch(() => undefined);
      onRound();
      await delay(PAUSE_MS);
    }
  };
  const connectOnce = async () => {
    const connection = await connectAnew(system, connector);
    await refreshAndCall(connection);
    connections.push(connection);
  };
  const connectAndRevoke = async () => {
    const connection = await connectAnew(system, connector);
    while (!(await revoke(connection))) {
      if (stopped.signal.aborted) return;
      await delay(PAUSE_MS);
    }
    revoked.push(connection);
    await refreshAndCall(connection);
  };
  const rounds = steady.map(() => 0);
  const workers = [
    ...steady.map((connection, i) =>
      repeat(
        () => refreshAndCall(connection),
        () => void (rounds[i] = (rounds[i] ?? 0) + 1),
      ),
    ),
    ...(connecting ? [repeat(connectOnce), repeat(connectAndRevoke)] : []),
  ];
  return {
    connections,
    revoked,
    async rounds(count) {
      const wanted = rounds.map((done) => done + count + 1);
      const isDone = () => rounds.every((done, i) => done >= (wanted[i] ?? 0));
      await until(`${count} rounds`, isDone, BASE_TIMEOUT_SECONDS + count * ROUND_TIMEOUT_SECONDS);
    },
    async stop() {
      stopped.abort();
      await Promise.all(workers);
    },
  };
}

/** Connects with a new browser, so that the person signs in. */
export function connectAnew(system: System, connector: { link: string }): Promise<Connection> {
  return connect(system, connector, { as: { browser: openBrowser(system.origins) } });
}

/** Refreshes and calls; like a real client, it keeps the old tokens if the refresh fails. */
export async function refreshAndCall(connection: Connection): Promise<void> {
  const { link, server, client } = connection;
  const { body } = await refresh(server, client, connection.refreshToken);
  connection.refreshToken = body.refresh_token ?? connection.refreshToken;
  connection.accessToken = body.access_token ?? connection.accessToken;
  await callTool(link, connection.accessToken, 'club_overview');
}

/** RFC 7009: ends the grant of the refresh token. Resolves to true if the revocation was confirmed. */
export async function revoke({ server, client, refreshToken }: Connection): Promise<boolean> {
  const body = new URLSearchParams({ client_id: client.id, token: refreshToken ?? '' });
  const response = await fetch(server.revocation_endpoint, { method: 'POST', body });
  await response.text();
  return response.status === 200;
}
