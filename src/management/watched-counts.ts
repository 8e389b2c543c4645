// What alerts count: what ends soon, connectors that open no tool, and held tools that somebody misses.
import type { ToolCounts } from '../observability/metrics.ts';
import { countComingEnds } from './coming-ends.ts';
import type { ManagementContext, ManagementHost } from './context.ts';
import { HANDLERS } from './handlers.ts';

const KEPT_SECONDS = 300;

/** Each is counted at most every five minutes, when the metrics are read. */
export function watchCounts(host: ManagementHost): void {
  const { metrics, now } = host.services;
  const management = { ...host, by: 'metrics', role: 'viewer' } as const;
  metrics.watchEnding(kept(() => countComingEnds(management), now));
  metrics.watchTools(kept(() => countTools(management), now));
}

function kept<Value>(count: () => Promise<Value>, now: () => number): () => Promise<Value> {
  let last: { value: Value; at: number } | undefined;
  return async () => {
    const at = now();
    // The clock can go back.
    if (!last || at < last.at || at >= last.at + KEPT_SECONDS) last = { value: await count(), at };
    return last.value;
  };
}

async function countTools(management: ManagementContext): Promise<ToolCounts[]> {
  const { items } = await HANDLERS.listUpstreams(management, {});
  return items.map(({ id, emptyConnectors, tools }) => ({
    upstream: id,
    emptyConnectors: emptyConnectors.length,
    missedTools: tools.filter(({ isMissed }) => isMissed).length,
  }));
}
