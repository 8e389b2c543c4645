// CPU time of Gatehouse and of Redis for one refresh, one call and one connection, which hardly depends on other load.
import { cpuTime } from '../server-process.ts';
import { callOne, connectNew, type Population, refreshOne, work } from './measurement.ts';
import type { Deployment } from './deployment.ts';
import type { Effort } from './options.ts';

/** Milliseconds for one operation. */
export type Cost = { gatehouse: number; redis: number };
export type Costs = Record<'refresh' | 'call' | 'connection', Cost>;

export async function measureCosts(
  deployment: Deployment,
  all: Population,
  { cpuSeconds }: Effort,
): Promise<Costs> {
  return {
    refresh: await costOf(deployment, () =>
      work(all.people, cpuSeconds, (each) => refreshOne(all, each)),
    ),
    call: await costOf(deployment, () =>
      work(all.people, cpuSeconds, (each) => callOne(all, each)),
    ),
    connection: await costOf(deployment, () => connectNew(deployment, cpuSeconds)),
  };
}

/** `act` resolves to the number of operations. */
async function costOf(deployment: Deployment, act: () => Promise<{ done: number }>): Promise<Cost> {
  const before = await spentBy(deployment);
  const { done } = await act();
  const after = await spentBy(deployment);
  const each = (which: keyof Cost) => (after[which] - before[which]) / done;
  return { gatehouse: each('gatehouse'), redis: each('redis') };
}

/** CPU time since the start, in milliseconds. */
async function spentBy({ subject, redis }: Deployment): Promise<Cost> {
  const about = await redis.info('cpu');
  const secondsOf = (what: string) =>
    Number(new RegExp(`^used_cpu_${what}:([\\d.]+)`, 'm').exec(about)?.[1]);
  return {
    gatehouse: cpuTime(subject.server.pid),
    redis: (secondsOf('user') + secondsOf('sys')) * 1000,
  };
}
