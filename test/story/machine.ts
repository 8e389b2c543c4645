// The machine of the story: certificates of a private authority, Redis, an identity provider, an MCP server, proxies with TLS, and Gatehouse,
// each a process as an operator would run it. Only the proxies are part of this process.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { startTlsProxy } from '../doctor/tls-proxy.ts';
import { freePorts } from '../support/free-ports.ts';
import { run } from '../support/package.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '../..');
export const CLIENT_ID = 'gatehouse';
const CLIENT_SECRET = 'the-secret-of-gatehouse-at-the-provider';

export type Ended = { code: number | null; stdout: string; stderr: string };
/** An installed Gatehouse: the program and its first arguments. */
export type Program = readonly [string, ...string[]];

export type Machine = Awaited<ReturnType<typeof openMachine>>;
/** A place for one deployment: its addresses, its folder, its Redis. */
export type Place = Awaited<ReturnType<Machine['openPlace']>>;

export async function openMachine(groups: Record<string, string[]>) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-story-'));
  const closers: (() => Promise<unknown>)[] = [];
  const authority = join(folder, 'company.pem');
  await makeCertificates(folder);
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, readFileSync(authority, 'utf8')]);
  const certificate = { cert: read('host.pem'), key: read('host.key') };
  /** What children get: nothing of the caller's own settings. */
  const base = { PATH: process.env['PATH'] ?? '', NODE_EXTRA_CA_CERTS: authority };
  const processes = new Set<ChildProcess>();
  closers.push(() => Promise.all([...processes].map((child) => end(child, 'SIGKILL'))));

  function read(name: string): string {
    return readFileSync(join(folder, name), 'utf8');
  }

  function open(program: Program, environment: Record<string, string>, log: string) {
    const [command, ...words] = program;
    const output = openSync(log, 'a');
    const child = spawn(command, words, {
      cwd: dirname(log),
      env: { ...base, ...environment },
      stdio: ['ignore', output, output],
    });
    processes.add(child);
    return child;
  }

  async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    processes.delete(child);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'close');
    child.kill(signal);
    await closed;
  }

  async function untilAnswers(url: string, child: ChildProcess, log: string): Promise<void> {
    await until(`${url} to answer`, async () => {
      if (child.exitCode !== null) throw new Error(readFileSync(log, 'utf8'));
      const answer = await fetch(url).catch(() => undefined);
      await answer?.body?.cancel();
      return answer !== undefined;
    });
  }

  async function openPlace(name: string) {
    const home = join(folder, name);
    const redisFolder = join(home, 'redis');
    await mkdir(redisFolder, { recursive: true });
    const ports = await freePorts(9);
    const [auth = 0, resource = 0, console_ = 0, provider = 0, tools = 0] = ports;
    const [authListener = 0, resourceListener = 0, consoleListener = 0, redisPort = 0] =
      ports.slice(5);
    const urls = {
      auth: `https://localhost:${auth}`,
      resource: `https://localhost:${resource}`,
      console: `https://localhost:${console_}`,
      provider: `https://localhost:${provider}`,
      /** Of commands, on this machine only. */
      management: `http://127.0.0.1:${consoleListener}`,
      tools: `http://127.0.0.1:${tools}/mcp`,
    };
    let redis: RedisServer = await startRedis({ port: redisPort, dataDir: redisFolder });
    closers.push(() => redis.stop());
    for (const [port, target] of [
      [auth, authListener],
      [resource, resourceListener],
      [console_, consoleListener],
    ] as const) {
      const proxy = await startTlsProxy(port, target, certificate);
      closers.push(() => proxy.stop());
      // Port 9 (discard), where nobody listens: the proxy of the console passes nothing else on.
      if (port === console_)
        proxy.misbehave({
          target: (path) => (/^\/(console|assets)(\/|$)/.test(path) ? undefined : 9),
        });
    }
    const given = {
      port: provider,
      certificate: join(folder, 'host.pem'),
      key: join(folder, 'host.key'),
      redirectUris: [`${urls.auth}/interaction/callback`, `${urls.console}/console/callback`],
      clientId: CLIENT_ID,
      clientSecret: CLIENT_SECRET,
      groups,
    };
    const node = process.execPath;
    const companyLog = join(home, 'provider.log');
    const script = join(import.meta.dirname, 'provider.ts');
    const company = open([node, script, JSON.stringify(given)], {}, companyLog);
    await untilAnswers(urls.provider, company, companyLog);
    const toolsLog = join(home, 'tools.log');
    const toolsSettings = { TOOLS_PORT: String(tools), TOOLS_ISSUER: urls.auth };
    const server = join(ROOT, 'config/recipes/whoami.ts');
    const mcpServer = open([node, server], toolsSettings, toolsLog);
    await untilAnswers(urls.tools, mcpServer, toolsLog);
    writeFileSync(join(home, 'client.secret'), CLIENT_SECRET, { mode: 0o600 });

    const environment = {
      NODE_ENV: 'production',
      GATEHOUSE_CONFIG: join(home, 'gatehouse.yaml'),
      GATEHOUSE_DATA_DIR: join(home, 'data'),
      GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${authListener}`,
      GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${resourceListener}`,
      GATEHOUSE_MANAGEMENT_LISTEN: `127.0.0.1:${consoleListener}`,
    };
    const log = join(home, 'gatehouse.log');
    let service: ChildProcess | undefined;
    const backup = join(folder, `${name}-backup`);

    const redisCli = (...words: string[]) =>
      run('redis-cli', ['-p', String(redisPort), ...words], home);

    /** As the unit of systemd does, again if it failed, but not with wrong settings. */
    async function start(program: Program, restarts = 3): Promise<void> {
      const [command, ...first] = program;
      rmSync(log, { force: true });
      const child = open([command, ...first, 'start'], environment, log);
      service = child;
      const isReady = async (port: number | undefined) => {
        const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
        await answer?.text();
        return answer?.status === 200;
      };
      await until('Gatehouse to be ready', async () => {
        if (child.exitCode !== null) return true;
        const ready = await Promise.all(
          [authListener, resourceListener, consoleListener].map(isReady),
        );
        return ready.every(Boolean);
      });
      if (child.exitCode === null) return;
      if (child.exitCode === 2 || restarts === 0) throw new Error(readFileSync(log, 'utf8'));
      await start(program, restarts - 1);
    }

    async function stop(): Promise<void> {
      if (service) await end(service, 'SIGTERM');
    }

    return {
      urls,
      home,
      store: `redis://127.0.0.1:${redisPort}`,
      log: () => readFileSync(log, 'utf8'),
      /** Runs a command to its end. */
      async command(program: Program, ...words: string[]): Promise<Ended> {
        const [command, ...first] = program;
        const child = spawn(command, [...first, ...words], {
          cwd: home,
          env: { ...base, ...environment },
          stdio: ['ignore', 'pipe', 'pipe'],
        });
        const closed = once(child, 'close');
        const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
        await closed;
        return { code: child.exitCode, stdout, stderr };
      },
      start,
      stop,
      async restart(program: Program): Promise<void> {
        await stop();
        await start(program);
      },
      /** The commands of config/operating.md for Redis, in the folders of this place. */
      async backUp(): Promise<void> {
        await redisCli('CONFIG', 'SET', 'auto-aof-rewrite-percentage', '0');
        await until('the file to be complete', async () => {
          const info = await redisCli('INFO', 'persistence');
          return /^aof_rewrite_in_progress:0/m.test(info) && /^aof_buffer_length:0/m.test(info);
        });
        await cp(join(redisFolder, 'appendonlydir'), backup, { recursive: true });
        await redisCli('CONFIG', 'SET', 'auto-aof-rewrite-percentage', '100');
      },
      /** The disk is lost with everything on it, and the backup put on a new one. */
      async loseDisk(): Promise<void> {
        await redis.stop('SIGKILL');
        await rm(redisFolder, { recursive: true });
        await mkdir(redisFolder);
        await cp(backup, join(redisFolder, 'appendonlydir'), { recursive: true });
        redis = await startRedis({ port: redisPort, dataDir: redisFolder });
      },
    };
  }

  return {
    folder,
    openPlace,
    /** Ends everything that runs, and removes the folder unless somebody has to look at it. */
    async close(keepsFolder: boolean): Promise<void> {
      for (const closer of closers.toReversed()) await closer();
      setDefaultCACertificates(trusted);
      if (!keepsFolder) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A private authority, and a certificate of it for localhost. */
async function makeCertificates(folder: string): Promise<void> {
  const openssl = (words: string) => run('openssl', words.split(' '), folder);
  const newKey = 'req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes';
  await openssl(`${newKey} -x509 -days 30 -keyout company.key -out company.pem -subj /CN=Company`);
  await openssl(`${newKey} -keyout host.key -out host.csr -subj /CN=localhost`);
  writeFileSync(join(folder, 'host.ext'), 'subjectAltName=DNS:localhost\n');
  await openssl(
    'x509 -req -in host.csr -CA company.pem -CAkey company.key -CAcreateserial -days 30 -extfile host.ext -out host.pem',
  );
}
