// A system whose store is put back to an earlier state.
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { membersOf } from '../../src/json-values.ts';
import { restore, type RestoreReport } from '../../src/restore/restore.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { gatehouse, type Outcome } from '../management/command-line.ts';
import { freePorts } from '../support/free-ports.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type StoreKind,
  type System,
} from '../support/system.ts';
import { until } from '../support/until.ts';

export type Restorable = {
  deployment: Deployment;
  /** Where exports and backups are. */
  directory: string;
  start(): Promise<System>;
  stop(): Promise<void>;
  /** Also while the system runs. */
  backUp(): Promise<void>;
  /** Only while it does not. */
  putBack(): Promise<void>;
  /** Nothing with SQLite. */
  redisDir: string;
  startRedis(): Promise<void>;
  /** Resolves when a copy has all that was written. */
  settle(): Promise<void>;
  stopRedis(): Promise<void>;
  /** The audit log as a file, with further items at its end. */
  exportAudit(more?: readonly Record<string, unknown>[], ...options: string[]): Promise<string>;
  /** Runs a command. */
  gatehouse(...args: string[]): Promise<Outcome>;
  /** `gatehouse restore` */
  restore(...options: string[]): Promise<Outcome>;
  /** As `gatehouse restore --replay`, but waits less for processes. */
  replay(file: string): Promise<RestoreReport>;
  release(): Promise<void>;
};

export async function openRestorable(
  kind: StoreKind,
  file: Record<string, unknown> = {},
): Promise<Restorable> {
  const directory = await mkdtemp(join(tmpdir(), 'gatehouse-restore-'));
  const copies = kind === 'redis' ? await redisCopies(directory) : undefined;
  const storeAddress = copies ? { storeAddress: copies.url } : {};
  const deployment = await createDeployment({ ...storeAddress, file });
  const { backUp, putBack } = copies ?? sqliteCopies(deployment, directory);
  let system: System | undefined;
  let exports = 0;
  const stop = async () => {
    const running = system;
    system = undefined;
    await running?.stop();
  };
  return {
    deployment,
    directory,
    async start() {
      system = await startDeployment(deployment);
      return system;
    },
    stop,
    backUp,
    putBack,
    redisDir: copies?.dataDir ?? '',
    startRedis: async () => copies?.start(),
    settle: async () => copies?.settle(),
    stopRedis: async () => copies?.close(),
    async exportAudit(more = [], ...options) {
      const args = ['audit', 'export', ...options];
      const { code, stdout } = await gatehouse(args, deployment.environment);
      expect(code).to.equal(0);
      const path = join(directory, `audit-${(exports += 1)}.jsonl`);
      await writeFile(path, withItems(stdout, more));
      return path;
    },
    gatehouse: (...args) => gatehouse(args, deployment.environment),
    restore: (...options) => gatehouse(['restore', ...options], deployment.environment),
    replay: (file) => replayIn(deployment, file),
    async release() {
      await stop();
      await copies?.close();
      await deployment.release();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export function replayIn(
  { environment }: Pick<Deployment, 'environment'>,
  file: string,
): Promise<RestoreReport> {
  return restore(loadSettings(environment), {
    replay: file,
    endAll: false,
    onProgress: () => undefined,
    now: () => Date.now() / 1000,
    waitMs: 200,
  });
}

/** As the system would have written them. */
function withItems(text: string, more: readonly Record<string, unknown>[]): string {
  const last = membersOf(JSON.parse(text.trimEnd().split('\n').at(-1) ?? ''));
  const lines = more.map((item, index) =>
    JSON.stringify({
      id: `added-${index}`,
      epoch: last['epoch'],
      time: last['time'],
      outcome: 'done',
      ...item,
      number: Number(last['number']) + 1 + index,
    }),
  );
  return [text.trimEnd(), ...lines, ''].join('\n');
}

type Copies = Pick<Restorable, 'backUp' | 'putBack'>;

function sqliteCopies({ facts }: Deployment, directory: string): Copies {
  const file = facts.storeAddress.replace('sqlite:', '');
  const copy = join(directory, 'copy.sqlite');
  return {
    async backUp() {
      const db = new DatabaseSync(file, { readOnly: true });
      await backup(db, copy);
      db.close();
    },
    async putBack() {
      for (const end of ['-wal', '-shm']) await rm(file + end, { force: true });
      await cp(copy, file);
    },
  };
}

async function redisCopies(directory: string): Promise<
  Copies & {
    url: string;
    dataDir: string;
    settle(): Promise<void>;
    start(): Promise<void>;
    close(): Promise<void>;
  }
> {
  const [port = 0] = await freePorts(1);
  const dataDir = await mkdtemp(join(directory, 'redis-'));
  let redis: RedisServer = await startRedis({ port, dataDir });
  const [folder, copy] = [join(dataDir, 'appendonlydir'), join(directory, 'copy')];
  /** Redis writes later while the disk is busy, so that a copy can be two seconds older than it seems. */
  const settle = async () => {
    const client = new Redis(port);
    await client.config('SET', 'auto-aof-rewrite-percentage', 0);
    await until('all to be in the file', async () => {
      const info = await client.info('persistence');
      return ['aof_rewrite_in_progress:0', 'aof_buffer_length:0'].every((each) =>
        info.includes(`${each}\r\n`),
      );
    });
    client.disconnect();
  };
  return {
    url: redis.url,
    dataDir,
    async start() {
      redis = await startRedis({ port, dataDir });
    },
    settle,
    async backUp() {
      await settle();
      await rm(copy, { recursive: true, force: true });
      await cp(folder, copy, { recursive: true });
    },
    async putBack() {
      await redis.stop('SIGTERM');
      await rm(folder, { recursive: true });
      await cp(copy, folder, { recursive: true });
      redis = await startRedis({ port, dataDir });
    },
    close: () => redis.stop('SIGTERM'),
  };
}

export function reportOf({ code, stdout, stderr }: Outcome): RestoreReport {
  expect(stderr).to.equal('');
  expect(code).to.equal(0);
  return JSON.parse(stdout);
}
