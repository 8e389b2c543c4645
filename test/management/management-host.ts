// A management host for tests: the real app on a free loopback port with a SQLite store in its own directory.
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { grantLifetimes } from '../../src/grants/grant-lifetime.ts';
import { managementApp } from '../../src/management/app.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { validateResponse } from './openapi-validation.ts';

export const KEY = 'a-management-key-of-43-characters-for-tests';
/** In seconds. */
export const ACCESS_TOKEN_LIFETIME = 3600;
export const LIFETIMES = grantLifetimes({
  accessToken: ACCESS_TOKEN_LIFETIME,
  refreshTokenIdle: 30 * 86_400,
});
export const ACCOUNT_LIFETIME = 90 * 86_400;
export const AUTH_URL = 'https://auth.example.com';
export const RESOURCE_URL = 'https://mcp.example.com';

export type ManagementHost = {
  url: string;
  /** Contains the store. Removed when the host is closed. */
  directory: string;
  store: Store;
  /** Seconds by which the host's clock is ahead of the real one. */
  clock: { ahead: number };
  close: () => Promise<void>;
};

export async function openManagementHost(resourceUrl = RESOURCE_URL): Promise<ManagementHost> {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-management-'));
  const clock = { ahead: 0 };
  const store = await openStore(
    { kind: 'sqlite', file: 'test.sqlite' },
    {
      secret: 'a root secret of more than 32 characters',
      dataDir: directory,
      now: () => Date.now() / 1000 + clock.ahead,
    },
  );
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const app = managementApp({
    url,
    version: '1.2.3',
    metrics: createMetrics([]),
    authUrl: AUTH_URL,
    resourceUrl,
    accessTokenLifetime: ACCESS_TOKEN_LIFETIME,
    lifetimes: LIFETIMES,
    accountLifetime: ACCOUNT_LIFETIME,
    grantLifetime: 90 * 86_400,
    entitledLevel: () => 'full',
    clients: { preRegistered: [], metadataDocuments: [] },
    store,
    key: KEY,
    guardKey: async (_attempt, isCorrect) => ({ isCorrect: isCorrect() }),
    logger: createLogger('silent'),
    isReady: () => store.ping(),
    now: () => Math.floor(Date.now() / 1000) + clock.ahead,
  });
  server.on('request', app.callback());
  return {
    url,
    directory,
    store,
    clock,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await store.close();
      await rm(directory, { recursive: true });
    },
  };
}

type Answer = { status: number; headers: Headers; body: Record<string, unknown> };

/** Sends a request with the key, as JSON if there is a body; `headers` come last. The response is validated against the OpenAPI document. */
export async function request(
  { url }: ManagementHost,
  method: string,
  path: string,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${KEY}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  const answer = { status: response.status, body: text ? JSON.parse(text) : {} };
  await validateResponse({ url, key: KEY }, method, path, answer);
  return { ...answer, headers: response.headers };
}
