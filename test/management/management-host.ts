// A management host for tests: the real app on a free loopback port with a SQLite store in its own directory.
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accountLifetime } from '../../src/people/account.ts';
import { grantLifetimes } from '../../src/connections/grant-lifetime.ts';
import { persistentKey } from '../../src/keys/persistent-key.ts';
import { managementApp } from '../../src/management/app.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { openReloads, type ReloadOptions, type Reloads } from '../../src/reload/reloads.ts';
import { createResources } from '../../src/resources.ts';
import { openProcessServices, openServices, type ProcessServices } from '../../src/services.ts';
import { loadSettings } from '../../src/settings/load.ts';
import type { ManagementRole } from '../../src/settings/management-roles.ts';
import type { Settings } from '../../src/settings/settings.ts';
import type { Store } from '../../src/store/store.ts';
import { validateResponse } from './openapi-validation.ts';

export const KEY = 'a-management-key-of-43-characters-for-tests';
export const AUTH_URL = 'https://auth.example.com';
export const RESOURCE_URL = 'https://mcp.example.com';
/** The key of each role, named after it. The one of administrators is named `default`. */
export const KEYS: Record<ManagementRole, string> = {
  viewer: 'a-viewer-key-of-thirty-seven-characters',
  auditor: 'an-auditor-key-of-thirty-nine-characters',
  operator: 'an-operator-key-of-forty-characters-here',
  administrator: KEY,
};
const SETTINGS: Settings = {
  ...loadSettings({
    GATEHOUSE_SECRET: 'a root secret of more than 32 characters',
    GATEHOUSE_MANAGEMENT_KEY: KEY,
    GATEHOUSE_LOG_LEVEL: 'silent',
  }),
  roles: ['management'],
  authUrl: AUTH_URL,
  store: { kind: 'sqlite', file: 'test.sqlite' },
  management: { administrators: [] },
  managementKeys: (['viewer', 'auditor', 'operator'] as const).map((role) => ({
    name: role,
    role,
    key: KEYS[role],
    setting: '',
  })),
  entitlements: [
    {
      match: { from: { via: 'sign-in', issuers: ['https://idp.example'] }, anyone: true },
      level: 'full',
    },
  ],
};
/** In seconds. */
export const ACCESS_TOKEN_LIFETIME = SETTINGS.lifetimes.accessToken;
export const LIFETIMES = grantLifetimes(SETTINGS.lifetimes);
export const ACCOUNT_LIFETIME = accountLifetime(SETTINGS);

export type ManagementHost = {
  url: string;
  /** Contains the store. Removed when the host is closed. */
  directory: string;
  store: Store;
  /** Moves the host's clock, which is stopped. In seconds. */
  clock: { ahead: number };
  /** The host's time, in seconds since the epoch. */
  now: () => number;
  close: () => Promise<void>;
};

export async function openManagementHost(resourceUrl = RESOURCE_URL): Promise<ManagementHost> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const opened = await openManagementServices({ managementUrl: url, resourceUrl });
  const { settings, services, clock, now } = opened;
  const app = managementApp(settings, { ...services, version: '1.2.3' });
  server.on('request', app.callback());
  return {
    url,
    directory: settings.dataDir,
    store: services.store,
    clock,
    now,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await opened.close();
    },
  };
}

/** What a management host works with, without the host. */
export async function openManagementServices(given: Partial<Settings> = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-management-'));
  const clock = { ahead: 0 };
  const opened = Math.floor(Date.now() / 1000);
  const now = () => opened + clock.ahead;
  const settings = { ...SETTINGS, dataDir: directory, ...given };
  const resources = createResources();
  const processServices = await openProcessServices(
    settings,
    {
      logger: createLogger('silent'),
      now,
      stopping: new AbortController().signal,
    },
    resources,
  );
  processServices.reloads = await openReloadsOf(settings, processServices);
  const services = await openServices(settings, processServices, resources);
  return {
    settings,
    services,
    clock,
    now,
    async close() {
      await resources.close();
      await rm(directory, { recursive: true });
    },
  };
}

/** Reloads that read the same settings again. */
export async function openReloadsOf(
  settings: Settings,
  services: Pick<ProcessServices, 'store' | 'logger' | 'metrics' | 'now'>,
  times?: ReloadOptions['times'],
): Promise<Reloads> {
  return openReloads({
    ...services,
    ...(times ? { times } : {}),
    digestKey: await persistentKey(services.store, 'digests of settings'),
    read: () => settings,
    secretVariables: () => [],
    current: () => settings,
    prepare: async () => ({ commit: () => undefined, discard: async () => undefined }),
  });
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
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  const parsed = text && isJson ? JSON.parse(text) : {};
  const answer = { status: response.status, body: isJson || text === '' ? parsed : text };
  await validateResponse({ url, key: KEY }, method, path, answer);
  return { ...answer, headers: response.headers };
}
