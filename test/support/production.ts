// A whole Gatehouse in production, in this process: https addresses, and the plain listeners that a proxy would pass requests to.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startGatehouse } from '../../src/gatehouse.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { freePorts } from './free-ports.ts';
import { rawRequest, type RawAnswer, type RawRequest } from './raw-request.ts';

export const AUTH = 'https://auth.example.com';
export const RESOURCE = 'https://mcp.example.com';
export const KEY = 'management-key-of-the-tests-0123456789';

export type HostName = 'auth' | 'resource' | 'management';

export type Production = {
  /** As a proxy passes it on, with the host's own name unless the headers have another. */
  ask(host: HostName, request?: RawRequest): Promise<RawAnswer>;
  /** The path of a connect link. */
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
    authUrl: AUTH,
    resourceUrl: RESOURCE,
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
      GATEHOUSE_MANAGEMENT_KEY: KEY,
      GATEHOUSE_LOG_LEVEL: 'silent',
    }),
  );
  const hosts = {
    auth: { port: auth, host: new URL(AUTH).host },
    resource: { port: resource, host: new URL(RESOURCE).host },
    management: { port: management, host: new URL(managementUrl).host },
  };
  const ask: Production['ask'] = (name, request = {}) => {
    const { port, host } = hosts[name];
    const headers = { host, ...request.headers };
    return rawRequest(`http://127.0.0.1:${port}`, { ...request, headers });
  };
  return {
    ask,
    async createLink() {
      const { status, body } = await ask('management', {
        method: 'POST',
        path: '/api/v1/connectors',
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
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
