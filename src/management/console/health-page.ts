import { listKeys } from '../signing-keys.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { dateFields, layout } from './layout.ts';
import { checkServers, checkStore } from './readiness.ts';

export function healthPage({ page }: ConsoleRoutes): void {
  page('/health', show);
}

async function show(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const { version, pages } = management.services;
  const [store, servers, { items }] = await Promise.all([
    checkStore(management),
    checkServers(management),
    listKeys(management),
  ]);
  await pages.render(ctx, 'console/health', {
    console: layout(context, 'health'),
    version,
    checks: [store, ...servers],
    items: items.map(({ id, state, signsFrom, publishedUntil }) => ({
      title: id,
      state,
      isOk: true,
      fields: [...dateFields('signsFrom', signsFrom), ...dateFields('removed', publishedUntil)],
      actions: [],
    })),
  });
}
