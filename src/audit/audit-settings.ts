// Changes of what the audit log has are on record: the settings of the log, and what is recorded at each level.
import { createHash } from 'node:crypto';
import type { DeliveryTarget } from '../settings/audit-delivery.ts';
import type { Settings } from '../settings/settings.ts';
import type { AuditServices } from './audit.ts';
import { type ChangeItem, recordChange } from './recorded-change.ts';

type Kept = Record<string, string>;

const KEY = 'audit-settings:last';
const DIGEST_LENGTH = 16;

/** Call it with the settings in force, at the start and after each reload. Of several processes, one records the change. */
export async function noteAuditSettings(
  services: AuditServices,
  settings: Settings,
): Promise<void> {
  const { store } = services;
  const next = valuesIn(settings);
  const keep = async () => {
    let before: Kept | undefined;
    await store.update<Kept>(KEY, (current) => {
      before = current;
      return { value: next, ttl: settings.audit.keep };
    });
    return before;
  };
  const begun = itemOf((await store.get<Kept>(KEY))?.value, next);
  if (!begun) return void (await keep());
  await recordChange(services, begun, { make: keep, itemOf: (before) => itemOf(before, next) });
}

/** Undefined if nothing changed, or nothing is known of the settings before. */
function itemOf(before: Kept | undefined, after: Kept): ChangeItem | undefined {
  if (before === undefined) return undefined;
  const old = withoutPaths(before);
  const names = [...new Set([...Object.keys(old), ...Object.keys(after)])].sort();
  const changed = names.filter((name) => old[name] !== after[name]);
  if (changed.length === 0) return undefined;
  const of = (values: Kept) =>
    Object.fromEntries(changed.flatMap((name) => (name in values ? [[name, values[name]]] : [])));
  return { event: 'audit_settings_changed', arguments: { before: of(old), after: of(after) } };
}

/** As texts by the name of the setting. Contains no secrets. */
function valuesIn({ audit, levels }: Settings): Kept {
  const { delivery, ...others } = audit;
  const values: [string, unknown][] = [
    ...Object.entries(others).map(([name, value]): [string, unknown] => [`audit.${name}`, value]),
    ...delivery.map(({ id, kind, url, events }): [string, unknown] => [
      `audit.delivery.${id}`,
      receiverOf({ kind, url, events }),
    ]),
    ...levels.map(({ id, recorded, arguments: given }): [string, unknown] => [
      `levels.${id}`,
      { recorded, arguments: given },
    ]),
  ];
  return Object.fromEntries(
    values.flatMap(([name, value]) => (value === undefined ? [] : [[name, textOf(value)]])),
  );
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

type Receiver = Pick<DeliveryTarget, 'kind' | 'url' | 'events'>;

/** The rest of an address can be a secret, so that a digest says whether it is another one. */
function receiverOf({ kind, url, events }: Receiver): object {
  const { origin, pathname, search } = new URL(url);
  const digest = createHash('sha256')
    .update(pathname + search)
    .digest('hex');
  return { kind, url: origin, path: `sha256:${digest.slice(0, DIGEST_LENGTH)}`, events };
}

/** Earlier versions kept the path. */
function withoutPaths(kept: Kept): Kept {
  const values = Object.entries(kept).map(([name, value]) => {
    const isEarlier = name.startsWith('audit.delivery.') && !value.includes('"path":');
    return [name, isEarlier ? JSON.stringify(receiverOf(JSON.parse(value) as Receiver)) : value];
  });
  return Object.fromEntries(values) as Kept;
}
