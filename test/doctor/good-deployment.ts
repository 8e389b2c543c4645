// A correct deployment: production settings, durable Redis, an identity provider, and proxies that terminate TLS.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Redis } from 'ioredis';
import { startGatehouse } from '../../src/server.ts';
import { examine } from '../../src/doctor/examination.ts';
import type { Finding } from '../../src/doctor/report.ts';
import { type DeploymentOptions, openDeployment } from '../../src/doctor/deployment.ts';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { freePorts } from '../support/free-ports.ts';
import { startRedis } from '../support/redis-server.ts';
import { waitForStore } from '../support/scale-out/patient-timeouts.ts';
import { startStrictProvider } from './strict-provider.ts';
import { startTlsProxy } from './tls-proxy.ts';

const KEY = 'management-key-of-the-tests-0123456789';
const CLIENT_SECRET = 'the-secret-of-the-client-that-is-long-enough';
const OPS = { name: 'Ops', level: 'operations' } as const;

export type GoodDeployment = Awaited<ReturnType<typeof startGoodDeployment>>;

export async function startGoodDeployment() {
  // Of this deployment and of doctor, which runs in the same process.
  const restoreTimeouts = waitForStore();
  const dir = await mkdtemp(join(tmpdir(), 'gatehouse-doctor-'));
  const ports = await freePorts(6);
  const [authPort = 0, resourcePort = 0, auth = 0, resource = 0, management = 0, idp = 0] = ports;
  const certificate = makeCertificate('localhost', { from: -1, until: 60 });
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, certificate.cert]);
  const authUrl = `https://localhost:${authPort}`;
  const resourceUrl = `https://localhost:${resourcePort}`;
  const redis = await startRedis({ dataDir: dir });
  const callback = `${authUrl}/interaction/callback`;
  const registered = { callback, secret: CLIENT_SECRET };
  const provider = await startStrictProvider(idp, certificate, registered);
  const environment = {
    NODE_ENV: 'production',
    NODE_EXTRA_CA_CERTS: join(dir, 'certificate.pem'),
    GATEHOUSE_CONFIG: join(dir, 'settings.yaml'),
    GATEHOUSE_DATA_DIR: dir,
    GATEHOUSE_SECRET: 'a-root-secret-that-is-long-enough',
    GATEHOUSE_MANAGEMENT_KEY: KEY,
    GATEHOUSE_IDENTITY_PROVIDER_SECRET: CLIENT_SECRET,
    GATEHOUSE_STORE: redis.url,
  };
  await writeFile(environment.NODE_EXTRA_CA_CERTS, certificate.cert);
  const file = {
    authUrl,
    resourceUrl,
    managementUrl: `http://127.0.0.1:${management}`,
    listen: { auth: `127.0.0.1:${auth}`, resource: `127.0.0.1:${resource}` },
    proxies: 1,
    // An app without a metadata document: no test asks a host of others.
    clients: { apps: ['cursor'] },
    identityProvider: { issuer: provider.issuer, clientId: 'gatehouse' },
    entitlements: [{ match: { group: 'analysts' }, level: 'operations' }],
  };
  await writeFile(environment.GATEHOUSE_CONFIG, JSON.stringify(file));
  const settings = loadSettings(environment);
  const gatehouse = await startGatehouse({ ...settings, logLevel: 'silent' });
  const proxies = {
    auth: await startTlsProxy(authPort, auth, certificate),
    resource: await startTlsProxy(resourcePort, resource, certificate),
  };
  const client = managementClient({ url: settings.managementUrl, key: KEY });
  await client.createConnector({ body: OPS });
  const admin = new Redis(redis.url);

  /** Runs all checks unless `only` names some. */
  const examineWith = async (
    changed: Partial<DeploymentOptions> = {},
    only?: readonly string[],
  ): Promise<Finding[]> => {
    const deployment = openDeployment({
      authUrl,
      resourceUrl,
      settings,
      openClient: () => client,
      signal: AbortSignal.timeout(60_000),
      // Above every delay of a busy machine.
      maxRedisLatency: 60_000,
      requestTimeout: 60_000,
      ...changed,
    });
    try {
      return await examine(deployment, { onStart: () => {}, onEnd: () => {} }, only);
    } finally {
      deployment.close();
    }
  };

  return {
    authUrl,
    resourceUrl,
    environment,
    settings,
    certificate,
    proxies,
    provider,
    management,
    admin,
    examine: examineWith,
    async stop() {
      admin.disconnect();
      for (const proxy of Object.values(proxies)) await proxy.stop();
      await gatehouse.stop(0);
      await provider.stop();
      await redis.stop();
      restoreTimeouts();
      setDefaultCACertificates(trusted);
      await rm(dir, { recursive: true, force: true });
    },
  };
}
