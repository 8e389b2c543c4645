// Starts redis-server processes, each with its own port and directory.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePorts } from './free-ports.ts';
import { REDIS, requireProgram } from './programs.ts';

export type RedisServer = {
  url: string;
  port: number;
  pid: number;
  /** Ends the process and resolves when it has ended. Data is lost unless `dataDir` is set. */
  stop(signal?: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  kill(signal: NodeJS.Signals): void;
};

const START_TIMEOUT_MS = 10_000;
const MAX_ATTEMPTS = 5;

export type RedisOptions = {
  /** Come first, because a configuration file must be the first argument. */
  args?: string[];
  /** A free port by default. */
  port?: number;
  /** Enables the append-only file in this directory, which the next server with the same directory loads. */
  dataDir?: string;
};

/** Resolves when the server answers PING, or asks for a password. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  for (let attempt = 1; ; attempt++) {
    try {
      const [free = 0] = options.port ? [] : await freePorts(1);
      return await startOn(options.port ?? free, options);
    } catch (error) {
      // Another process may take a free port before Redis does.
      if (options.port || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

async function startOn(port: number, { args = [], dataDir }: RedisOptions): Promise<RedisServer> {
  const dir = dataDir ?? (await mkdtemp(join(tmpdir(), 'redis-')));
  const listen = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir];
  // A new replica is in sync at once. By default, the master waits five seconds for more replicas.
  const replication = ['--repl-diskless-sync-delay', '0'];
  const kept = ['--save', '', '--appendonly', dataDir === undefined ? 'no' : 'yes'];
  const child = spawn(
    requireProgram(REDIS),
    [...args, ...listen, ...(isSentinel(args) ? [] : replication), ...kept],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let output = '';
  child.stdout.on('data', (text) => (output += text));
  child.stderr.on('data', (text) => (output += text));
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);

  const stop: RedisServer['stop'] = async (signal = 'SIGKILL') => {
    process.off('exit', killAtExit);
    await end(child, signal);
    if (dataDir === undefined) await rm(dir, { recursive: true, force: true });
  };
  const failed = once(child, 'error').then(([error]) => Promise.reject(error));
  try {
    await Promise.race([untilPong(child, port, () => output), failed]);
  } catch (error) {
    await stop();
    throw error;
  }
  failed.catch(() => undefined);
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    stop,
    kill: (signal) => void child.kill(signal),
  };
}

function isSentinel(args: readonly string[]): boolean {
  return args.includes('--sentinel');
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

async function untilPong(child: ChildProcess, port: number, output: () => string): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await answersPing(port))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      throw new Error(`redis-server did not start on port ${port}:\n${output()}`);
    }
    await delay(20);
  }
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('data', (data) => finish(/^(\+PONG|-NOAUTH)/.test(data.toString())));
    socket.once('error', () => finish(false));
    socket.setTimeout(500, () => finish(false));
  });
}
