import type { ViewValues } from '../../pages/pages.ts';
import type { UpstreamResource } from '../api/resources.ts';
import { listUpstreams } from '../upstreams.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { epochSeconds, layout } from './layout.ts';

type Server = ViewValues['console/servers']['servers'][number];

export function serverPages({ page }: ConsoleRoutes): void {
  page('/servers', show);
}

async function show(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const { items } = await listUpstreams(management);
  await management.services.pages.render(ctx, 'console/servers', {
    console: layout(context, 'servers'),
    servers: items.map(serverOf),
  });
}

function serverOf(upstream: UpstreamResource): Server {
  const { id, name, url, seenAt, triedAt, error, levels, missingTools } = upstream;
  return {
    id,
    name,
    url,
    state: stateOf(error !== undefined, triedAt !== undefined),
    ...(seenAt === undefined ? {} : { seenAt: epochSeconds(seenAt) }),
    ...(error ? { error } : {}),
    levels,
    missing: missingTools,
    tools: upstream.tools.map(({ name: tool, title, level, isDeclared }) => ({
      name: tool,
      ...(title === undefined ? {} : { title }),
      ...(level === undefined ? {} : { level }),
      from: isDeclared
        ? 'settings'
        : upstream.toolLevels === 'annotations'
          ? 'annotations'
          : 'default',
    })),
  };
}

function stateOf(hasFailed: boolean, wasTried: boolean): Server['state'] {
  if (hasFailed) return 'fails';
  return wasTried ? 'answers' : 'untried';
}
