// A production system in this process: https public addresses, and plain http listeners as behind a proxy.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startGatehouse } from '../../src/server.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { freePorts } from './free-ports.ts';
import { rawRequest, type RawResponse, type RawRequest } from './raw-request.ts';

export const AUTH_URL = 'https://auth.example.com';
export const RESOURCE_URL = 'https://mcp.example.com';
export const MANAGEMENT_KEY = 'management-key-of-the-tests-0123456789';

export type HostName = 'auth' | 'resource' | 'management';

export type Production = {
  /** Sends a request as a proxy would, with the host's own name unless the headers have another. */
  request(host: HostName, request?: RawRequest): Promise<RawResponse>;
  /** Resolves to the path of a new connect link. */
  createLink(): Promise<string>;
  stop(): Promise<void>;
};

/** `file` adds top-level settings. */
export async function startProduction(file: Record<string, unknown> = {}): Promise<Production> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-production-'));
  const [auth = 0, resource = 0, management = 0] = await freePorts(3);
  const config = join(dataDir, 'settings.yaml');
  const managementUrl = `http://127.0.0.1:${management}`;
  const settings = {
    authUrl: AUTH_URL,
    resourceUrl: RESOURCE_URL,
    managementUrl,
    listen: { auth: `127.0.0.1:${auth}`, resource: `127.0.0.1:${resource}` },
    identityProvider: { issuer: 'https://login.example.com', clientId: 'gatehouse' },
    entitlements: [{ match: { group: 'analysts' }, level: 'operations' }],
    ...file,
  };
  await writeFile(config, JSON.stringify(settings));
  const gatehouse = await startGatehouse(
    loadSettings({
      NODE_ENV: 'production',
      GATEHOUSE_CONFIG: config,
      GATEHOUSE_DATA_DIR: dataDir,
      GATEHOUSE_SECRET: 'a-root-secret-that-is-long-enough',
      GATEHOUSE_MANAGEMENT_KEY: MANAGEMENT_KEY,
      GATEHOUSE_LOG_LEVEL: 'silent',
    }),
  );
  const hosts = {
    auth: { port: auth, host: new URL(AUTH_URL).host },
    resource: { port: resource, host: new URL(RESOURCE_URL).host },
    management: { port: management, host: new URL(managementUrl).host },
  };
  const request: Production['request'] = (name, options = {}) => {
    const { port, host } = hosts[name];
    const headers = { host, ...options.headers };
    return rawRequest(`http://127.0.0.1:${port}`, { ...options, headers });
  };
  return {
    request,
    async createLink() {
      const { status, body } = await request('management', {
        method: 'POST',
        path: '/api/v1/connectors',
        headers: { authorization: `Bearer ${MANAGEMENT_KEY}`, 'content-type': 'application/json' },
        chunks: [JSON.stringify({ name: 'Club figures', level: 'operations' })],
      });
      if (status !== 201) throw new Error(`${status} ${body}`);
      return new URL(JSON.parse(body).link).pathname;
    },
    async stop() {
      await gatehouse.stop(0);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
