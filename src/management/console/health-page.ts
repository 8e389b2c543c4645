import { deliveryHandlers } from '../audit-delivery.ts';
import { describeReach } from '../audit-reach.ts';
import { deliveryFields } from '../resources/audit-delivery.ts';
import { type AuditReach, MIN_REACH_SECONDS } from '../resources/audit-reach.ts';
import { consoleFields } from '../resources/fields.ts';
import { keyFields } from '../resources/key.ts';
import { keyHandlers } from '../signing-keys.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { settingsOperations } from '../resources/settings.ts';
import type { ConsoleRoutes } from './context.ts';
import { layout } from './layout.ts';
import { SETTINGS_PATH } from './settings-page.ts';
import { checkServers, checkStore } from './readiness.ts';

const DELIVERY = 'address reason oldest lastDelivered lastFailed nextAttempt';

export function healthPage({ page }: ConsoleRoutes): void {
  page('/health', async (context) => {
    const { management, ctx } = context;
    const { version, pages } = management.services;
    const [store, servers, deliveries, reach, { items }] = await Promise.all([
      checkStore(management),
      checkServers(management),
      deliveryHandlers.listAuditDelivery(management, {}),
      describeReach(management),
      keyHandlers.listKeys(management, {}),
    ]);
    await pages.render(ctx, 'console/health', {
      console: layout(context, 'health'),
      version,
      checks: [store, ...servers],
      differing: management.services.reloads().differing(),
      settings: includesRole(management.role, settingsOperations.reloadSettings.role)
        ? SETTINGS_PATH
        : undefined,
      calls: management.settings.audit.calls === 'all' ? callsOf(reach) : undefined,
      deliveries: deliveries.items.map((delivery) => ({
        ...delivery,
        isOk: delivery.state === 'delivering',
        fields: consoleFields(deliveryFields, DELIVERY, delivery),
      })),
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

function callsOf({ seconds, items, room }: AuditReach) {
  const hours = Math.floor(seconds / 3600);
  const reach = hours < 48 ? hours * 3600 : Math.floor(hours / 24) * 86_400;
  return { isOk: seconds >= MIN_REACH_SECONDS, reach, items, room };
}
