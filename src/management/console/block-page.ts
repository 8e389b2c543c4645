// The page that shows what a block would disconnect, and asks before it is made.
import type { BlockBody } from '../api/requests.ts';
import { previewBlock } from '../client-rules.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext } from './context.ts';
import { layout } from './layout.ts';

const MAX_NAMES = 10;

/** Changes nothing. `from` is the page of the app that is blocked, and is shown again afterwards. */
export async function confirmBlock(
  context: ConsoleContext,
  block: BlockBody,
  from: string | undefined,
): Promise<void> {
  const { management, ctx } = context;
  const { clients, connections, names, isAll } = await previewBlock(management, block);
  const rules = `${CONSOLE_PATH}/rules`;
  await management.services.pages.render(ctx, 'console/block', {
    console: layout(context, from?.startsWith(`${CONSOLE_PATH}/clients/`) ? 'clients' : 'rules'),
    action: `${rules}/block`,
    subject:
      'host' in block ? { field: 'host', value: block.host } : { field: 'name', value: block.name },
    clients,
    connections,
    isAll,
    names: names.slice(0, MAX_NAMES).map(({ name, connections: count }) => ({
      name,
      connections: count,
      href: `${CONSOLE_PATH}/clients?${new URLSearchParams({ q: name })}`,
    })),
    moreNames: Math.max(0, names.length - MAX_NAMES),
    ...(from ? { returnTo: from } : {}),
    back: from ?? rules,
  });
}
