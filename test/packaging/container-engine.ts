// In place of docker and kubectl, where there is none: runs the image, alone or as config/compose.yaml and config/kubernetes have it, as
// processes with the variables, arguments and mounted files that they would have. Paths and listeners are those of the test. `node container-engine.ts docker …`
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { REDIS, requireProgram } from '../support/programs.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '../..');

type Environment = Record<string, string>;

/** Where the engine keeps what it made, and the ports of this machine. Of the test, by ENGINE. */
export type Engine = {
  folder: string;
  /** By the port in the container. */
  ports: Record<string, number>;
};

/** The variables that the image sets. */
export function imageVariables(): Environment {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, block = ''] = /^ENV (GATEHOUSE_CONFIG[\s\S]*?)\n\S/m.exec(dockerfile) ?? [];
  return Object.fromEntries(
    [...block.matchAll(/(GATEHOUSE_\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  );
}

type Container = {
  name: string;
  environment: Environment;
  /** What is mounted, by its path in the container. */
  mounts: Record<string, string>;
};

const composeFile = z.object({
  services: z.record(
    z.string(),
    z.object({
      environment: z.record(z.string(), z.string()).default({}),
      secrets: z.array(z.string()).default([]),
      volumes: z.array(z.string()).default([]),
      command: z.array(z.string()).default([]),
      healthcheck: z.object({ test: z.tuple([z.literal('CMD-SHELL'), z.string()]) }).optional(),
    }),
  ),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
});

const manifest = z.object({
  kind: z.string(),
  metadata: z.object({ name: z.string() }),
  data: z.record(z.string(), z.string()).default({}),
  spec: z.unknown().optional(),
});
const podSpec = z.object({
  containers: z.tuple([
    z.object({
      env: z.array(z.object({ name: z.string(), value: z.string() })),
      volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
    }),
  ]),
  volumes: z.array(
    z.object({
      name: z.string(),
      configMap: z.object({ name: z.string() }).optional(),
      secret: z
        .object({
          secretName: z.string(),
          items: z.array(z.object({ key: z.string(), path: z.string() })),
        })
        .optional(),
    }),
  ),
});
const podOwner = z.object({ template: z.object({ spec: podSpec }) });

class WrongUsage extends Error {}

/** Where a path of a container is. */
function placeOf(mounts: Container['mounts'], text: string): string {
  for (const [path, place] of Object.entries(mounts))
    if (text === path || text.startsWith(`${path}/`)) return place + text.slice(path.length);
  return text;
}

/** The command in a container, with what it finds there. */
function inContainer({ folder, ports }: Engine, container: Container, words: readonly string[]) {
  const { name, environment, mounts } = container;
  const data = newFolder(join(folder, 'data', name));
  const placed = (text: string) =>
    placeOf({ ...mounts, '/data': data }, text).replace(
      /^0\.0\.0\.0:(\d+)$/,
      (_, port) => `127.0.0.1:${ports[port]}`,
    );
  const all = { NODE_ENV: 'production', ...imageVariables(), ...environment };
  // The authority of the test is one of those that the image trusts.
  const { PATH = '', NODE_EXTRA_CA_CERTS = '' } = process.env;
  const env: Environment = { PATH, NODE_EXTRA_CA_CERTS };
  for (const [variable, value] of Object.entries(all)) env[variable] = placed(value);
  const store = env['GATEHOUSE_STORE_FILE'];
  if (store !== undefined && existsSync(store))
    env['GATEHOUSE_STORE_FILE'] = written(
      join(data, 'store'),
      readFileSync(store, 'utf8').replace('@redis:6379', `@127.0.0.1:${ports['6379']}`),
    );
  const [program, ...rest] = words;
  if (program !== 'gatehouse') throw new WrongUsage(`the image has no command ${program}`);
  return { env, args: [join(ROOT, 'src/gatehouse.js'), ...rest.map(placed)], cwd: data };
}

function newFolder(path: string): string {
  mkdirSync(path, { recursive: true });
  return path;
}

function written(path: string, text: string): string {
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

function run(engine: Engine, container: Container, words: readonly string[]): void {
  const { args, ...options } = inContainer(engine, container, words);
  execFileSync(process.execPath, args, { ...options, stdio: 'inherit' });
}

async function start(engine: Engine, container: Container): Promise<void> {
  const { args, ...options } = inContainer(engine, container, ['gatehouse', 'start']);
  const log = join(engine.folder, `${container.name}.log`);
  const child = keepRunning(engine, log, process.execPath, args, options);
  const isRunning = () => readFileSync(log, 'utf8').includes('is running');
  await untilRunning(`${container.name} to run`, { child, log }, isRunning);
}

function keepRunning(
  { folder }: Engine,
  log: string,
  program: string,
  args: string[],
  options: { env?: Environment; cwd?: string },
): ChildProcess {
  const output = openSync(log, 'w', 0o600);
  const child = spawn(program, args, {
    ...options,
    detached: true,
    stdio: ['ignore', output, output],
  });
  child.unref();
  appendFileSync(join(folder, 'pids'), `${child.pid} ${basename(log, '.log')}\n`);
  return child;
}

/** Of the processes that run, by name. */
function runningIn({ folder }: Engine): Map<string, number> {
  const file = join(folder, 'pids');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  const all = lines.map((line) => line.split(' '));
  return new Map(
    all.flatMap(([pid, name = '']) => (isAlive(Number(pid)) ? [[name, Number(pid)]] : [])),
  );
}

async function stop(engine: Engine): Promise<void> {
  const pids = [...runningIn(engine).values()];
  for (const pid of pids) process.kill(pid, 'SIGTERM');
  await until('the containers to stop', () => !pids.some(isAlive));
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function untilRunning(
  what: string,
  { child, log }: { child: ChildProcess; log: string },
  isRunning: () => boolean,
): Promise<void> {
  await until(what, () => {
    if (child.exitCode !== null) throw new Error(readFileSync(log, 'utf8'));
    return isRunning();
  });
}

/** `docker compose` in the folder of the file. */
async function compose(engine: Engine, [command, ...words]: string[]): Promise<void> {
  const file = composeFile.parse(parse(readFileSync('compose.yaml', 'utf8'), { merge: true }));
  const secretsOf = (names: readonly string[]) =>
    names.map((name) => [`/run/secrets/${name}`, resolve(file.secrets[name]?.file ?? '')]);
  const containerOf = (name: string, volumes: readonly string[] = []): Container => {
    const service = file.services[name];
    if (!service) throw new WrongUsage(`no such service: ${name}`);
    const folders = [...service.volumes, ...volumes].map((volume) => volume.split(':'));
    const mounted = folders.map(([from = '', to = '']) => [to, resolve(from)]);
    const mounts = Object.fromEntries([...secretsOf(service.secrets), ...mounted]);
    return { name, environment: service.environment, mounts };
  };
  const startRedis = async () => {
    if (runningIn(engine).has('redis')) return;
    const { command: [, ...args] = [], healthcheck, secrets } = file.services['redis'] ?? {};
    const [[secret = '', place = ''] = []] = secretsOf(secrets ?? []);
    const placed = (text: string) => text.replace(secret, place);
    const port = String(engine.ports['6379']);
    const own = ['--port', port, '--bind', '127.0.0.1', '--dir', engine.folder];
    const log = join(engine.folder, 'redis.log');
    const all = [...args.map(placed), ...own];
    const child = keepRunning(engine, log, requireProgram(REDIS), all, {});
    const check = placed(healthcheck?.test[1] ?? 'false')
      .replaceAll('$$', '$')
      .replace('redis-cli', `redis-cli -p ${port}`);
    await untilRunning('Redis to be healthy', { child, log }, () => isDone(check));
  };
  switch (command) {
    case 'build':
      return;
    case 'run': {
      const at = words.findIndex((word) => word in file.services);
      const { values } = parseArgs({
        args: words.slice(0, at),
        options: {
          rm: { type: 'boolean' },
          'no-deps': { type: 'boolean' },
          volume: { type: 'string', multiple: true, default: [] },
        },
      });
      const container = containerOf(words[at] ?? '', values.volume);
      if (!values['no-deps']) await startRedis();
      return run(engine, { ...container, name: 'run' }, words.slice(at + 1));
    }
    case 'exec': {
      const [name = '', ...line] = words.filter((word) => word !== '-T');
      return run(engine, containerOf(name), line);
    }
    case 'stop':
      return stop(engine);
    case 'up': {
      parseArgs({ args: words, options: { detach: { type: 'boolean' } } });
      await startRedis();
      await Promise.all(
        ['authorization-server', 'resource-server'].map((name) => start(engine, containerOf(name))),
      );
      return;
    }
    default:
      throw new WrongUsage(`unknown command: compose ${command}`);
  }
}

/** `docker run` and `docker exec`. */
async function docker(engine: Engine, [command, ...words]: string[]): Promise<void> {
  const file = join(engine.folder, 'containers');
  const containers: Container[] = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
  if (command === 'exec') {
    const [name, ...line] = words;
    const container = containers.find((each) => each.name === name);
    if (!container) throw new WrongUsage(`no such container: ${name}`);
    return run(engine, container, line);
  }
  const at = words.indexOf('gatehouse', words.indexOf('--name') + 2);
  const { values } = parseArgs({
    args: words.slice(0, at),
    options: {
      rm: { type: 'boolean' },
      detach: { type: 'boolean' },
      name: { type: 'string', default: 'run' },
      restart: { type: 'string' },
      publish: { type: 'string', multiple: true },
      volume: { type: 'string', multiple: true, default: [] },
      env: { type: 'string', multiple: true, default: [] },
    },
  });
  const container: Container = {
    name: values.name,
    environment: {
      // As everything in the container, it is on a port of the test.
      GATEHOUSE_MANAGEMENT_URL: `http://127.0.0.1:${engine.ports['4002']}`,
      ...Object.fromEntries(
        values.env.map((text) => {
          const [variable = '', ...value] = text.split('=');
          return [variable, value.join('=')];
        }),
      ),
    },
    mounts: Object.fromEntries(
      values.volume.flatMap((volume) => {
        const [from = '', to = ''] = volume.split(':');
        return to === '/data' ? [] : [[to, resolve(from)]];
      }),
    ),
  };
  if (!values.detach) return run(engine, container, words.slice(at + 1));
  written(file, JSON.stringify([...containers, container]));
  return start(engine, container);
}

function isDone(line: string): boolean {
  try {
    execFileSync('sh', ['-c', line], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** `kubectl` in one namespace. */
async function kubectl(engine: Engine, words: string[]): Promise<void> {
  const at = words.indexOf('--');
  const { values, positionals } = parseArgs({
    args: at < 0 ? words : words.slice(0, at),
    allowPositionals: true,
    options: {
      namespace: { type: 'string', short: 'n' },
      filename: { type: 'string', short: 'f', multiple: true, default: [] },
      'from-literal': { type: 'string', multiple: true, default: [] },
      replicas: { type: 'string' },
      for: { type: 'string' },
      selector: { type: 'string' },
      timeout: { type: 'string' },
    },
  });
  const [command = '', kind = ''] = positionals;
  const needsNamespace = !['create namespace', 'label namespace'].includes(`${command} ${kind}`);
  if (needsNamespace && values.namespace !== 'gatehouse') throw new WrongUsage('no namespace');
  const inFolder = (...parts: string[]) => join(engine.folder, ...parts);
  const mountOf = (
    name: string,
    { configMap, secret }: Pick<z.infer<typeof podSpec>['volumes'][number], 'configMap' | 'secret'>,
  ): string => {
    if (configMap) return inFolder('ConfigMap', configMap.name);
    if (!secret) return newFolder(inFolder('scratch', name));
    for (const { key } of secret.items)
      if (!existsSync(inFolder('Secret', secret.secretName, key)))
        throw new WrongUsage(`the secret has no ${key}`);
    return inFolder('Secret', secret.secretName);
  };
  const containerOf = (pod: string): Container => {
    const name = pod.replace(/^deploy\//, '');
    const stored = readFileSync(inFolder('pods', name), 'utf8');
    const { containers, volumes } = podSpec.parse(JSON.parse(stored));
    const [{ env, volumeMounts }] = containers;
    const mounts = volumeMounts
      .filter(({ mountPath }) => mountPath !== '/data')
      .map((mount) => {
        const volume = volumes.find((each) => each.name === mount.name);
        if (!volume) throw new WrongUsage(`no such volume: ${mount.name}`);
        return [mount.mountPath, mountOf(name, volume)];
      });
    const environment = Object.fromEntries(env.map((each) => [each.name, each.value]));
    return { name, environment, mounts: Object.fromEntries(mounts) };
  };
  const store = (name: string, folder: string, text: string) => {
    written(join(newFolder(inFolder(folder)), name), text);
  };
  switch (command) {
    case 'label':
      return;
    case 'create':
      for (const literal of values['from-literal']) {
        const [key = '', ...value] = literal.split('=');
        store(key, join('Secret', positionals[3] ?? ''), value.join('='));
      }
      return;
    case 'apply': {
      const files = values.filename.flatMap((folder) => globSync(join(folder, '*.yaml')));
      const found = files.flatMap((file) =>
        parseAllDocuments(readFileSync(file, 'utf8')).map((each) => manifest.parse(each.toJS())),
      );
      for (const { metadata, data } of found.filter((each) => each.kind === 'ConfigMap'))
        for (const [key, text] of Object.entries(data))
          store(key, join('ConfigMap', metadata.name), text);
      const ofDeployments: Container[] = [];
      for (const { kind: owner, metadata, spec } of found) {
        if (owner !== 'Pod' && owner !== 'Deployment') continue;
        const pod = owner === 'Pod' ? podSpec.parse(spec) : podOwner.parse(spec).template.spec;
        store(metadata.name, 'pods', JSON.stringify(pod));
        if (owner === 'Deployment') ofDeployments.push(containerOf(metadata.name));
      }
      const running = runningIn(engine);
      const stopped = ofDeployments.filter(({ name }) => !running.has(name));
      await Promise.all(stopped.map((container) => start(engine, container)));
      return;
    }
    case 'scale':
      if (
        kind !== 'deployment' ||
        values.selector !== 'app.kubernetes.io/part-of=gatehouse' ||
        values.replicas !== '0'
      )
        throw new WrongUsage('only the deployments of Gatehouse can be stopped');
      return stop(engine);
    case 'wait': {
      const isThere = values.selector
        ? runningIn(engine).size > 0
        : existsSync(inFolder('pods', basename(kind)));
      if (isThere !== (values.for !== 'delete')) throw new WrongUsage('timed out');
      return;
    }
    case 'cp': {
      const [, from = '', to = ''] = positionals;
      const [pod = '', path = ''] = to.split(':');
      cpSync(from, placeOf(containerOf(pod).mounts, path));
      return;
    }
    case 'delete':
      rmSync(inFolder('pods', positionals[2] ?? ''));
      return;
    case 'exec':
      return run(engine, containerOf(kind), words.slice(at + 1));
    default:
      throw new WrongUsage(`unknown command: ${command}`);
  }
}

async function main([program, ...words]: string[]): Promise<void> {
  const engine: Engine = JSON.parse(process.env['ENGINE'] ?? '');
  if (program === 'kubectl') return kubectl(engine, words);
  const [command, ...others] = words;
  if (command === 'compose') return compose(engine, others);
  if (command === 'run' || command === 'exec') return docker(engine, words);
  if (command !== 'build' && command !== 'push') throw new WrongUsage(`unknown: ${command}`);
}

if (import.meta.main) {
  try {
    await main(process.argv.slice(2));
  } catch (error) {
    const { status } = error as { status?: number };
    if (status === undefined) console.error(error);
    process.exitCode = status ?? 1;
  }
}
