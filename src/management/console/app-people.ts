// Who connected each app of a list, which tells apps of one name apart.
import { subjectOf } from '../../connections/connections.ts';
import { newestGrants } from '../../connections/grant-lists.ts';
import { findStoredGrants } from '../../connections/grants.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { ConsoleField, ConsoleItem } from '../../pages/console-values.ts';
import type { ManagementContext } from '../context.ts';
import { CONSOLE_PATH, recordPath } from './address.ts';

/** Read for each app, to see whether one person has all of them. */
const MAX_READ = 3;

/** Reads for all rows at once. `rows` are apps. People have their ids in place of names. */
export async function withPeople(
  { settings, services: { store, now } }: ManagementContext,
  rows: readonly ConsoleItem[],
): Promise<ConsoleItem[]> {
  const owners = rows.map(({ id = '' }) => ({ kind: 'client', id }) as const);
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const newest = await newestGrants(store, owners, { lifetime, now: now(), limit: MAX_READ });
  const ids = newest.flatMap((each) => each.ids);
  const stored = await findStoredGrants(store, ids);
  const subjects = new Map(
    stored.flatMap((grant, index) => (grant ? [[ids[index], subjectOf(grant)] as const] : [])),
  );
  return rows.map((row, index) => {
    const { ids: own = [], isAll = true } = newest[index] ?? {};
    const found = new Set(own.map((id) => subjects.get(id)).filter((id) => id !== undefined));
    const field = personField(String(row.id), [...found], isAll);
    return field ? { ...row, facts: [field, ...(row.facts ?? [])] } : row;
  });
}

function personField(
  client: string,
  [first, ...others]: readonly string[],
  isAll: boolean,
): ConsoleField | undefined {
  if (first === undefined || isMachineSubject(first)) return undefined;
  if (others.length > 0 || !isAll) {
    const textKey = `console.clients.${others.length > 0 ? 'severalPeople' : 'severalConnections'}`;
    const href = `${CONSOLE_PATH}/grants?${new URLSearchParams({ client })}`;
    return { label: 'person', textKey, href };
  }
  return { label: 'person', text: first, href: recordPath('accounts', first) };
}
