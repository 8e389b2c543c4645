// Changes of what the audit log has are on record: the settings of the log, and what is recorded at each level.
import type { Settings } from '../settings/settings.ts';
import { type AuditServices, recordAudit } from './audit.ts';

type Kept = Record<string, string>;

const KEY = 'audit-settings:last';

/** Call it with the settings in force, at the start and after each reload. Of several processes, one records the change. */
export async function noteAuditSettings(
  services: AuditServices,
  settings: Settings,
): Promise<void> {
  const next = valuesIn(settings);
  let before: Kept | undefined;
  await services.store.update<Kept>(KEY, (current) => {
    before = current;
    return { value: next, ttl: settings.audit.keep };
  });
  if (before === undefined) return;
  const old = before;
  const names = [...new Set([...Object.keys(old), ...Object.keys(next)])].sort();
  const changed = names.filter((name) => old[name] !== next[name]);
  if (changed.length === 0) return;
  const of = (values: Kept) =>
    Object.fromEntries(changed.flatMap((name) => (name in values ? [[name, values[name]]] : [])));
  await recordAudit(services, {
    event: 'audit_settings_changed',
    arguments: { before: of(old), after: of(next) },
    outcome: 'done',
  });
}

/** As texts by the name of the setting. Contains no secrets: addresses of receivers are without their query. */
function valuesIn({ audit, levels }: Settings): Kept {
  const { delivery, ...others } = audit;
  const values: [string, unknown][] = [
    ...Object.entries(others).map(([name, value]): [string, unknown] => [`audit.${name}`, value]),
    ...delivery.map(({ id, kind, url, events }): [string, unknown] => [
      `audit.delivery.${id}`,
      { kind, url: withoutQuery(url), events },
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

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}
