// The result of the measurement of several processes as text.
import { cpus } from 'node:os';
import type { Shape } from './system.ts';
import { redisVersion, textTable } from '../text.ts';

export type Operation = 'refresh' | 'call' | 'connection';

/** One turn of one system: operations a second, and milliseconds of a processor for one operation in every part. */
export type Turn = {
  operation: Operation;
  shape: Shape;
  perSecond: number;
  gatehouse: number;
  redis: number;
  balancer: number;
  load: number;
};

/** Medians. */
export type Measured = Turn;

export function describe(measured: readonly Measured[]): string {
  const here = measured.map((each) => [
    each.operation,
    labelOf(each.shape),
    each.perSecond.toFixed(0),
    each.gatehouse.toFixed(2),
    each.redis.toFixed(3),
    each.balancer.toFixed(3),
    each.load.toFixed(2),
  ]);
  const computed = measured.map((each) => [
    each.operation,
    labelOf(each.shape),
    ratePerSecond(each).toFixed(0),
    `${(100 * ratePerSecond(each) * (each.redis / 1000)).toFixed(0)}%`,
  ]);
  return [
    `Node ${process.version}, Redis ${redisVersion()}, ${cpus().length} cores for Gatehouse, Redis, the balancer and the load together`,
    '',
    'Measured: a second, and milliseconds of a processor for each (medians)',
    textTable(['', 'processes', 'per second here', 'Gatehouse', 'Redis', 'balancer', 'load'], here),
    '',
    'Calculated from the processor time: every process on a core of its own, Redis, balancer and load on others',
    textTable(['', 'processes', 'per second', 'of a core for Redis'], computed),
  ].join('\n');
}

function labelOf({ count, kind }: Shape): string {
  return kind === 'workers' ? `${count} workers` : String(count);
}

/** What the processes do if each has a core, unless one core of Redis limits them. */
function ratePerSecond({ shape: { count }, gatehouse, redis }: Measured): number {
  return Math.min((1000 * count) / gatehouse, 1000 / redis);
}
