import type { ViewValues } from '../../pages/pages.ts';
import { epochSeconds } from '../resources/fields.ts';
import { levelSource, type Upstream } from '../resources/upstream.ts';
import { upstreamHandlers } from '../upstreams.ts';
import type { ConsoleRoutes } from './context.ts';
import { layout } from './layout.ts';

type Server = ViewValues['console/servers']['servers'][number];

export function serverPages({ page }: ConsoleRoutes): void {
  page('/servers', async (context) => {
    const { management, ctx } = context;
    const { items } = await upstreamHandlers.listUpstreams(management, {});
    await management.services.pages.render(ctx, 'console/servers', {
      console: layout(context, 'servers'),
      servers: items.map(serverOf),
    });
  });
}

function serverOf(upstream: Upstream): Server {
  const { id, name, url, paused, seenAt, triedAt, error, levels, missingTools, tools } = upstream;
  return {
    id,
    name,
    url,
    state: paused ? 'paused' : error ? 'fails' : triedAt ? 'answers' : 'untried',
    seenAt: seenAt === undefined ? undefined : epochSeconds(seenAt),
    error,
    levels,
    missing: missingTools,
    tools: tools.map((tool) => {
      const { name: called, title, level } = tool;
      return { name: called, title, level, from: levelSource(upstream, tool) };
    }),
  };
}
