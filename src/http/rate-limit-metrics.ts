// Counts how often each limit said no.
import type { Metrics } from '../observability/metrics.ts';
import type { RateLimit, RateLimits } from './rate-limits.ts';

export function countedRateLimits(limits: RateLimits, metrics: Metrics): RateLimits {
  const counted = Object.entries(limits).map(([name, limit]) => [
    name,
    count(limit, name, metrics),
  ]);
  return Object.fromEntries(counted) as RateLimits;
}

function count(limit: RateLimit, name: string, metrics: Metrics): RateLimit {
  metrics.rateLimited(name, 0);
  const noted = (wait: number | undefined) => {
    if (wait !== undefined) metrics.rateLimited(name);
    return wait;
  };
  return {
    take: async (address, subject) => noted(await limit.take(address, subject)),
    wait: (address, subject) => noted(limit.wait(address, subject)),
    charge: limit.charge,
  };
}
