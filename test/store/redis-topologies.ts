import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePorts } from '../support/free-ports.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

export type RedisNode = RedisServer & { raw: Redis };

const SLOTS = 16_384;
const MASTERS = 3;
/** Milliseconds. On a busy machine, nodes that are well can take seconds to answer each other. */
const PATIENT_NODES = 15_000;
const CLUSTER = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(PATIENT_NODES)];
/** Milliseconds, for the death of a node. */
const IMPATIENT_NODES = 1000;

async function startNode(port: number, args: string[]): Promise<RedisNode> {
  const server = await startRedis({ port, args });
  const raw = new Redis(server.url, { retryStrategy: () => 200 });
  raw.on('error', () => undefined);
  return {
    ...server,
    raw,
    async stop() {
      raw.disconnect();
      await server.stop();
    },
  };
}

export type RedisCluster = {
  masters: RedisNode[];
  /** The replica of the first master. */
  replica: RedisNode;
  stop(): Promise<void>;
};

/** Starts three masters and a replica. Resolves when all nodes report a complete Cluster and the replica is in sync. */
export async function startCluster(): Promise<RedisCluster> {
  const ports = await freePorts(2 * (MASTERS + 1));
  const nodes = await Promise.all(
    ports
      .slice(0, MASTERS + 1)
      .map((port, i) =>
        startNode(port, [...CLUSTER, '--cluster-port', String(ports[MASTERS + 1 + i])]),
      ),
  );
  const [first, second, third, replica] = nodes;
  if (!first || !second || !third || !replica) throw new Error('a node is missing');
  const masters = [first, second, third];
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  try {
    await makeCluster(masters, replica, ports);
  } catch (error) {
    await stop();
    throw error;
  }
  return { masters, replica, stop };
}

/** A replica takes over soon after its master has died. */
export async function failOverSoon({ masters, replica }: RedisCluster): Promise<void> {
  for (const { raw } of [...masters, replica])
    await raw.config('SET', 'cluster-node-timeout', IMPATIENT_NODES);
}

async function makeCluster(
  masters: RedisNode[],
  replica: RedisNode,
  ports: number[],
): Promise<void> {
  const [first] = masters;
  const nodes = [...masters, replica];
  for (const [i, { raw }] of masters.entries()) {
    const from = Math.ceil((SLOTS / MASTERS) * i);
    const to = Math.ceil((SLOTS / MASTERS) * (i + 1)) - 1;
    await raw.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
    await raw.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  }
  for (const { raw } of nodes.slice(1)) {
    await raw.call('CLUSTER', 'MEET', '127.0.0.1', ports[0] ?? 0, ports[MASTERS + 1] ?? 0);
  }
  const everyNode = async (test: (info: string) => boolean) =>
    (await Promise.all(nodes.map(({ raw }) => raw.cluster('INFO')))).every((info) =>
      test(String(info)),
    );
  await until('all nodes to know each other', () =>
    everyNode((info) => info.includes(`cluster_known_nodes:${nodes.length}`)),
  );
  const firstId = String(await first?.raw.call('CLUSTER', 'MYID'));
  await until('the replica to replicate the first master', () =>
    replica.raw.call('CLUSTER', 'REPLICATE', firstId).then(
      () => true,
      () => false,
    ),
  );
  await until(
    'the cluster state to be ok',
    () => everyNode((info) => info.includes('cluster_state:ok')),
    15,
  );
  if (first) await untilInSync(first.raw, replica.raw);
}

/** Resolves when the replica acknowledges what its master writes. It loads the data of the master before it does. */
export async function untilInSync(master: Redis, replica: Redis): Promise<void> {
  await until('the replica to be in sync', async () =>
    (await replica.info('replication')).includes('master_link_status:up'),
  );
  await until('the replica to acknowledge', async () => (await master.wait(1, 100)) === 1);
}

/** Sentinel makes a returned master a replica after four of these periods. */
export async function setPublishPeriod(
  { sentinel }: Pick<SentinelRedis, 'sentinel'>,
  milliseconds: number,
): Promise<void> {
  await sentinel.raw.call('SENTINEL', 'DEBUG', 'PUBLISH-PERIOD', milliseconds);
}

export type SentinelRedis = {
  master: RedisNode;
  replica: RedisNode;
  sentinel: RedisNode;
  stop(): Promise<void>;
};

async function untilReplicaKnown({ raw }: RedisNode, name: string): Promise<void> {
  await until('Sentinel to know the replica', async () => {
    const replicas = await raw.call('SENTINEL', 'REPLICAS', name);
    return Array.isArray(replicas) && replicas.length === 1;
  });
}

/** Makes Sentinel forget its last failover. Otherwise it delays the next one. */
export async function forgetFailover({ sentinel }: SentinelRedis, name: string): Promise<void> {
  await sentinel.raw.call('SENTINEL', 'RESET', name);
  await untilReplicaKnown(sentinel, name);
}

/**
 * Lets Sentinel promote the replica. It gives up a failover that it has accepted if it has not heard of the replica for 0.3 s, as on a busy machine,
 * and is asked again.
 */
export function failOver(sentinel: RedisNode, name: string, replica: RedisNode): Promise<true> {
  return until('a new master', async () => {
    if ((await replica.raw.info('replication')).includes('role:master')) return true;
    await sentinel.raw.call('SENTINEL', 'FAILOVER', name).catch(() => undefined);
    return false;
  });
}

/** Lets Sentinel promote the replica when the master does not answer. */
export async function expectLoss({ sentinel }: SentinelRedis, name: string): Promise<void> {
  const options = ['down-after-milliseconds', 500, 'failover-timeout', 1000];
  await sentinel.raw.call('SENTINEL', 'SET', name, ...options);
}

/** Starts a master called `name`, one replica, and one Sentinel with a quorum of one. Resolves when Sentinel knows both and the replica is in sync. */
export async function startSentinel(name: string): Promise<SentinelRedis> {
  const [masterPort = 0, replicaPort = 0, sentinelPort = 0] = await freePorts(3);
  const dir = await mkdtemp(join(tmpdir(), 'sentinel-'));
  const started: RedisNode[] = [];
  const start = async (port: number, args: string[]) => {
    const node = await startNode(port, args);
    started.push(node);
    return node;
  };
  const stop = async () => {
    await Promise.all(started.map((node) => node.stop()));
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const master = await start(masterPort, []);
    const replica = await start(replicaPort, ['--replicaof', `127.0.0.1 ${masterPort}`]);
    await untilInSync(master.raw, replica.raw);
    const file = join(dir, 'sentinel.conf');
    await writeFile(file, sentinelConf(name, masterPort));
    const sentinel = await start(sentinelPort, [file, '--sentinel']);
    // With the default period of ten seconds, Sentinel often rejects the replica and retries much later.
    // A pause of two seconds would also make it do nothing for half a minute.
    const periods = ['INFO-PERIOD', 100, 'PING-PERIOD', 100, 'TILT-TRIGGER', 60_000];
    await sentinel.raw.call('SENTINEL', 'DEBUG', ...periods);
    await untilReplicaKnown(sentinel, name);
    await untilInSync(master.raw, replica.raw);
    return { master, replica, sentinel, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

// No server is considered down, and no failover given up, because the machine is busy.
const sentinelConf = (name: string, port: number) => `
sentinel monitor ${name} 127.0.0.1 ${port} 1
sentinel down-after-milliseconds ${name} 60000
sentinel failover-timeout ${name} 60000
`;
