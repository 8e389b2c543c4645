// A connected client that calls and refreshes every few milliseconds and records all failures.
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../support/until.ts';
import type { Connection } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';

export type Traffic = {
  /** Describes each response other than 200. */
  failures: readonly string[];
  /** The access token of the last refresh. */
  accessToken: () => string;
  /** Resolves after several more calls and refreshes, each started after this call. */
  waitForProgress: () => Promise<void>;
  stop: () => Promise<void>;
};

const CALLERS = 2;
const PAUSE_MS = 10;
const MORE = 1;

export function startTraffic({ link, server, client, ...held }: Connection): Traffic {
  let { accessToken, refreshToken } = held;
  const done = { calls: 0, refreshes: 0 };
  const failures: string[] = [];
  const stopped = new AbortController();

  const call = async () => {
    const { status, text } = await callTool(link, accessToken, 'club_overview');
    if (status !== 200) failures.push(`call: ${status} ${text}`);
    done.calls += 1;
  };
  const refreshOnce = async () => {
    const { status, body } = await refresh(server, client, refreshToken);
    if (status !== 200) failures.push(`refresh: ${status} ${JSON.stringify(body)}`);
    accessToken = body.access_token ?? accessToken;
    refreshToken = body.refresh_token ?? refreshToken;
    done.refreshes += 1;
  };
  const repeat = async (step: () => Promise<void>) => {
    while (!stopped.signal.aborted) {
      await step().catch((error: unknown) => failures.push(String(error)));
      await delay(PAUSE_MS);
    }
  };
  const running = [...Array.from({ length: CALLERS }, () => repeat(call)), repeat(refreshOnce)];

  return {
    failures,
    accessToken: () => accessToken,
    async waitForProgress() {
      // Each caller may have a request open already.
      const wanted = {
        calls: done.calls + CALLERS + MORE,
        refreshes: done.refreshes + 1 + MORE,
      };
      await until(
        'more calls and refreshes',
        () => done.calls >= wanted.calls && done.refreshes >= wanted.refreshes,
      );
    },
    async stop() {
      stopped.abort();
      await Promise.all(running);
    },
  };
}
