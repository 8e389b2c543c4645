// Measures what one, two and four processes do behind one load balancer, what two workers of one process do, and what each request costs every part
// (npm run bench:processes).
import { Agent } from 'node:http';
import { join } from 'node:path';
import { openClient } from '../client.ts';
import { blockOf, readFlags, temporaryFolder, WRITE, writeBetween } from '../command.ts';
import { forSeconds, refreshWhile } from '../load.ts';
import { logProgress } from '../progress.ts';
import { median } from '../timing.ts';
import { call } from '../tool-calls.ts';
import { describe, type Measured, type Operation, type Turn } from './report.ts';
import { openSystem, type Shape, type Spent, type System } from './system.ts';

const HELP = `npm run bench:processes -- [flags]

  --quick  one short turn of one and two processes and of workers: shows that all of it runs; the numbers mean little
  --write  puts the result into config/scale.md as well

Takes about two minutes on two idle cores. Needs redis-server and 2 GB of memory. How it measures: test/bench/README.md.
`;

const WORKERS: Shape = { count: 2, kind: 'workers' };
const behindBalancer = (count: number): Shape => ({ count, kind: 'processes' });
const FULL = { shapes: [...[1, 2, 4].map(behindBalancer), WORKERS], rounds: 5, turnSeconds: 2 };
const QUICK = { shapes: [...[1, 2].map(behindBalancer), WORKERS], rounds: 1, turnSeconds: 0.3 };
type Effort = typeof FULL;

const CONNECTIONS = 16;
/** Sign-ins in progress at a time. */
const PEOPLE = 8;
const DOCUMENT = join(import.meta.dirname, '../../../config/scale.md');

/** Each does as many as it can, and resolves to their number. */
const OPERATIONS: Record<Operation, (system: System, mayStart: () => boolean) => Promise<number>> =
  {
    refresh: async ({ client, families }, mayStart) => {
      // New connections, so that the balancer shares them out.
      const agent = new Agent({ keepAlive: true });
      const { refreshes, failures } = await refreshWhile(
        { ...client, agent },
        families,
        CONNECTIONS,
        mayStart,
      );
      agent.destroy();
      if (failures.length > 0) throw new Error(failures[0]);
      return refreshes;
    },
    call: async ({ client, families }, mayStart) => {
      const agent = new Agent({ keepAlive: true });
      const done = await inParallel(CONNECTIONS, mayStart, (n) => {
        const token = families[n % families.length]?.accessToken ?? '';
        return call({ url: client.resource, agent, token });
      });
      agent.destroy();
      return done;
    },
    connection: ({ subject }, mayStart) =>
      inParallel(PEOPLE, mayStart, async () => {
        await (await openClient(subject)).openFamily();
      }),
  };

async function main({ shapes, rounds, turnSeconds }: Effort, write: boolean): Promise<void> {
  const root = await temporaryFolder();
  const systems: System[] = [];
  try {
    for (const shape of shapes) {
      logProgress(`starting ${shape.count} ${shape.kind} of Gatehouse`);
      systems.push(await openSystem(root, shape));
    }
    const turns: Turn[] = [];
    for (const operation of Object.keys(OPERATIONS) as Operation[]) {
      logProgress(`${operation}: warm-up`);
      // Every process must compile its code, and each gets its share of the requests only.
      for (const system of systems) await take(system, operation, turnSeconds * system.shape.count);
      for (let round = 1; round <= rounds; round += 1) {
        logProgress(`${operation}: round ${round} of ${rounds}`);
        // They take turns, so that other load slows them alike.
        for (const system of systems) turns.push(await take(system, operation, turnSeconds));
      }
    }
    const text = describe(summarize(turns));
    console.log(text);
    if (write) await writeBetween(DOCUMENT, blockOf('bench:processes'), text);
  } finally {
    await Promise.all(systems.map((system) => system.stop()));
  }
}

async function take(system: System, operation: Operation, seconds: number): Promise<Turn> {
  const [before, load] = [await system.spent(), process.cpuUsage()];
  const begun = performance.now();
  const done = await OPERATIONS[operation](system, forSeconds(seconds));
  const elapsed = (performance.now() - begun) / 1000;
  const [after, own] = [await system.spent(), process.cpuUsage(load)];
  const each = (part: keyof Spent) => (after[part] - before[part]) / done;
  return {
    operation,
    shape: system.shape,
    perSecond: done / elapsed,
    gatehouse: each('gatehouse'),
    redis: each('redis'),
    balancer: each('balancer'),
    load: (own.user + own.system) / 1000 / done,
  };
}

/** Medians over the turns. */
function summarize(turns: readonly Turn[]): Measured[] {
  const groups = Map.groupBy(
    turns,
    ({ operation, shape }) => `${operation} ${shape.count} ${shape.kind}`,
  );
  return [...groups.values()].map((group) => {
    const of = (part: Exclude<keyof Turn, 'operation' | 'shape'>) =>
      median(group.map((turn) => turn[part]));
    const [{ operation, shape }] = group as [Turn];
    return {
      operation,
      shape,
      perSecond: of('perSecond'),
      gatehouse: of('gatehouse'),
      redis: of('redis'),
      balancer: of('balancer'),
      load: of('load'),
    };
  });
}

async function inParallel(
  connections: number,
  mayStart: () => boolean,
  act: (n: number) => Promise<void>,
): Promise<number> {
  let done = 0;
  const one = async () => {
    while (mayStart()) await act(done++);
  };
  await Promise.all(Array.from({ length: connections }, one));
  return done;
}

const { quick, write } = readFlags(HELP, WRITE);
await main(quick ? QUICK : FULL, write);
