// Names in place of the ids of people and connectors, in rows whose records have only ids.
import { verifiedEmailOf } from '../../people/account.ts';
import { findAccounts } from '../../people/accounts.ts';
import { findConnectors } from '../../links/connectors.ts';
import type { ConsoleField, ConsoleItem } from '../../pages/console-values.ts';
import type { Store } from '../../store/store.ts';
import type { ManagementContext } from '../context.ts';
import type { ConsoleList } from '../resources/resource.ts';
import { recordPath } from './address.ts';
import { withPeople } from './app-people.ts';

/** The rows of a list with names, and with who connected them if they are apps. */
export async function withPeopleAndNames(
  management: ManagementContext,
  list: ConsoleList<never>,
  rows: readonly ConsoleItem[],
): Promise<ConsoleItem[]> {
  return withNames(management, list.withPeople ? await withPeople(management, rows) : rows);
}

/** Reads for all rows at once. A deleted record keeps its id. */
export async function withNames(
  { services: { store } }: ManagementContext,
  rows: readonly ConsoleItem[],
): Promise<ConsoleItem[]> {
  const all = rows.flatMap(({ facts = [], fields }) => [...facts, ...fields]);
  const names = await findNames(store, all);
  const named = (field: ConsoleField): ConsoleField => {
    const { href = '', text = '' } = field;
    const name = href.endsWith(`/${text}`) ? names.get(href) : undefined;
    return name ? { ...field, text: name } : field;
  };
  return rows.map((row) => ({
    ...row,
    ...(row.facts ? { facts: row.facts.map(named) } : {}),
    fields: row.fields.map(named),
  }));
}

/** The names of the records that the fields show with their ids, by the paths of the records. */
async function findNames(
  store: Store,
  fields: readonly ConsoleField[],
): Promise<Map<string, string>> {
  const idsOf = (section: 'accounts' | 'connectors') => {
    const ids = fields.flatMap(({ href, text }) =>
      text && href === recordPath(section, text) ? [text] : [],
    );
    return [...new Set(ids)];
  };
  const [accounts, connectors] = await Promise.all([
    findAccounts(store, idsOf('accounts')),
    findConnectors(store, idsOf('connectors')),
  ]);
  const names = new Map<string, string>();
  for (const [id, account] of accounts)
    names.set(recordPath('accounts', id), verifiedEmailOf(account) ?? account.name);
  for (const connector of connectors)
    if (connector) names.set(recordPath('connectors', connector.id), connector.name);
  return names;
}
