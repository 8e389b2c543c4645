// The files of `gatehouse init`, in use.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { expect } from 'chai';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { startStrictProvider } from '../doctor/strict-provider.ts';
import { startTlsProxy } from '../doctor/tls-proxy.ts';
import { gatehouse } from '../management/command-line.ts';
import { freePorts } from '../support/free-ports.ts';
import { call } from '../support/mcp.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { startRedis } from '../support/redis-server.ts';
import { init, words } from './files.ts';
import { startOpenUpstream } from './open-upstream.ts';

const TOOLS = [
  { name: 'list_orders', annotations: { readOnlyHint: true } },
  { name: 'delete_order', annotations: { readOnlyHint: false } },
];
const CLIENT_SECRET = 'k3Yx9-client-secret-of-the-provider-81qz';

type Variables = Record<string, string>;

/** Undoes in reverse order. */
const cleanups: (() => unknown)[] = [];

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-init-'));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs the server in a folder, with nothing but its files and the given variables, until the test ends. */
async function startIn(cwd: string, environment: Variables): Promise<void> {
  const env = { ...environment, GATEHOUSE_LOG_LEVEL: 'silent' };
  const child = spawn(process.execPath, nodeArguments(['start']), { cwd, env, stdio: 'pipe' });
  const closed = once(child, 'close');
  cleanups.push(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output += text));
  await new Promise<void>((resolve, reject) => {
    child.stdout.on('data', () => output.includes('is running') && resolve());
    child.once('close', () => reject(new Error(output)));
  });
}

/** Runs a command with the files in a folder. */
async function json(folder: string, args: string[], environment: Variables) {
  const config = { GATEHOUSE_CONFIG: join(folder, 'gatehouse.yaml') };
  const { code, stdout, stderr } = await gatehouse([...args, '--json'], {
    ...environment,
    ...config,
  });
  expect({ code, stderr }, stdout).to.deep.equal({ code: 0, stderr: '' });
  return JSON.parse(stdout);
}

async function toolsFor(resource: string, token: string): Promise<string[] | undefined> {
  const { rpc } = await call(`${resource}/mcp`, token, {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/list',
  });
  return rpc?.result?.tools?.map(({ name }) => name);
}

describe('Gatehouse with the files of gatehouse init', () => {
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
  });

  it('Gatehouse starts for trying out, and each level opens the tools that init suggested', async () => {
    const upstream = await startOpenUpstream(TOOLS);
    cleanups.push(upstream.stop);
    const folder = await newFolder();
    const [auth, resource, management, idp] = await freePorts(4);
    const addresses = `--auth-url http://localhost:${auth} --resource-url http://localhost:${resource}`;
    const { code, stderr } = await init(
      folder,
      ...words(`--yes --upstream ${upstream.url} ${addresses}`),
    );
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    const environment = {
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${management}`,
      GATEHOUSE_DEVELOPMENT_IDP_URL: `http://localhost:${idp}`,
    };
    await startIn(folder, environment);
    const tools: Record<string, string[] | undefined> = {};
    for (const level of ['read', 'full']) {
      const mint = ['token', 'mint', '--name', level, '--level', level];
      const { token } = await json(folder, mint, environment);
      tools[level] = await toolsFor(`http://localhost:${resource}`, token);
    }
    expect(tools).to.deep.equal({ read: ['list_orders'], full: ['list_orders', 'delete_order'] });
  });

  it('SUP-03 init, start and doctor succeed in production with an OpenID provider, TLS and Redis', async () => {
    const [folder, redisFolder] = [await newFolder(), await newFolder()];
    const ports = await freePorts(6);
    const [authPort = 0, resourcePort = 0, auth = 0, resource = 0, management = 0, idp = 0] = ports;
    const certificate = makeCertificate('localhost', { from: -1, until: 60 });
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, certificate.cert]);
    cleanups.push(() => setDefaultCACertificates(trusted));
    const authUrl = `https://localhost:${authPort}`;
    const resourceUrl = `https://localhost:${resourcePort}`;
    const redis = await startRedis({ dataDir: redisFolder });
    cleanups.push(() => redis.stop());
    const registered = { callback: `${authUrl}/interaction/callback`, secret: CLIENT_SECRET };
    const provider = await startStrictProvider(idp, certificate, registered);
    cleanups.push(provider.stop);
    let isVerifying = false;
    const upstream = await startOpenUpstream(
      TOOLS,
      ({ headers }) => !isVerifying || 'gatehouse-caller' in headers,
    );
    cleanups.push(upstream.stop);
    const [secretFile, trustFile] = ['client.secret', 'ca.pem'].map((name) => join(folder, name));
    writeFileSync(String(secretFile), CLIENT_SECRET);
    writeFileSync(String(trustFile), certificate.cert);

    const { code, stdout, stderr } = await init(
      folder,
      ...words(`--yes --auth-url ${authUrl} --resource-url ${resourceUrl} --store ${redis.url}`),
      ...words(`--idp oidc --issuer ${provider.issuer} --client-id gatehouse`),
      ...words(`--client-secret-file ${secretFile} --upstream ${upstream.url}`),
      // An app without a metadata document, which would be fetched.
      ...words('--apps cursor'),
    );
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(stdout).to.include(registered.callback);
    isVerifying = true;

    const environment = {
      NODE_ENV: 'production',
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${management}`,
      GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${auth}`,
      GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${resource}`,
    };
    await startIn(folder, { ...environment, NODE_EXTRA_CA_CERTS: String(trustFile) });
    for (const [port, target] of [
      [authPort, auth],
      [resourcePort, resource],
    ] as const) {
      const proxy = await startTlsProxy(port, target, certificate);
      cleanups.push(proxy.stop);
    }
    const create = ['connector', 'create', '--name', 'Orders', '--level', 'read'];
    await json(folder, create, environment);
    const { outcome, counts, findings } = await json(folder, ['doctor'], environment);
    expect(outcome, JSON.stringify(findings)).to.equal('ok');
    expect(counts).to.include({ problem: 0, warning: 0, unknown: 0 });
  });
});
