import { consoleFields } from '../resources/fields.ts';
import { keyFields } from '../resources/key.ts';
import { keyHandlers } from '../signing-keys.ts';
import type { ConsoleRoutes } from './context.ts';
import { layout } from './layout.ts';
import { checkServers, checkStore } from './readiness.ts';

export function healthPage({ page }: ConsoleRoutes): void {
  page('/health', async (context) => {
    const { management, ctx } = context;
    const { version, pages } = management.services;
    const [store, servers, { items }] = await Promise.all([
      checkStore(management),
      checkServers(management),
      keyHandlers.listKeys(management, {}),
    ]);
    await pages.render(ctx, 'console/health', {
      console: layout(context, 'health'),
      version,
      checks: [store, ...servers],
      items: items.map((key) => ({
        title: key.id,
        state: key.state,
        isOk: true,
        fields: consoleFields(keyFields, 'signsFrom removed', key),
        actions: [],
      })),
    });
  });
}
