// Waits until a replica of Redis has what was written, so that a failover does not undo it.
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisClient } from './redis-client.ts';

// A connection that waits answers nothing else, so it waits for moments, with room for others in between.
const MOMENT_MS = 20;
const BETWEEN_MS = 60;

type Wait = (name: string, milliseconds: number) => Promise<void>;

/**
 * The wait resolves when a replica of the master that holds `name` has all that was written before: at once when there is no replica, and
 * at the latest a moment after `milliseconds`. Rejects when Redis does not answer.
 */
export function waitForReplicas(client: RedisClient): Wait {
  // Many that wait for the same replica must not fill the connection with waiting.
  let lastTurn: Promise<unknown> = Promise.resolve();
  const inTurn = <R>(work: () => Promise<R>): Promise<R> => {
    const turn = lastTurn.then(work);
    lastTurn = turn.catch(() => undefined);
    return turn;
  };

  return async function replicated(name, milliseconds) {
    const end = performance.now() + milliseconds;
    const { offset, acknowledged } = await askMaster(client, name, 0);
    if (acknowledged.length === 0) return;
    const isDone = async () => {
      if (performance.now() > end) return true;
      const now = await askMaster(client, name, MOMENT_MS);
      if (now.acknowledged.some((reached) => reached >= offset)) return true;
      await delay(BETWEEN_MS);
      return false;
    };
    while (!(await inTurn(isDone)));
  };
}

type Replication = {
  /** How much was written, in bytes. */
  offset: number;
  /** How much of it each replica says it has. */
  acknowledged: number[];
};

/** `milliseconds`: how long replicas are given to say how far they are; otherwise they do so once a second. */
async function askMaster(
  client: RedisClient,
  name: string,
  milliseconds: number,
): Promise<Replication> {
  // In a Cluster the key leads all commands of the pipeline to its master.
  const pipeline = client.pipeline().exists(name);
  if (milliseconds > 0) pipeline.wait(1, milliseconds);
  const [found, ...others] = (await pipeline.role().exec()) ?? [];
  const [error, role] = others.at(-1) ?? [];
  if (found?.[0] ?? error) throw found?.[0] ?? error;
  return readRole(role);
}

/** `master`, its offset, and for each replica its host, port and offset. */
function readRole(role: unknown): Replication {
  if (!Array.isArray(role) || role[0] !== 'master') throw new Error('Redis is not a master');
  const replicas: unknown[] = Array.isArray(role[2]) ? role[2] : [];
  return {
    offset: Number(role[1]),
    acknowledged: replicas.map((replica) => Number(Array.isArray(replica) ? replica[2] : 0)),
  };
}
