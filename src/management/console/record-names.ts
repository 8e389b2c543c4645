// Names in place of the ids of people and connectors, in rows whose records have only ids.
import { verifiedEmailOf } from '../../people/account.ts';
import { findAccount } from '../../people/accounts.ts';
import { findConnector } from '../../links/connectors.ts';
import type { ConsoleField, ConsoleItem } from '../../pages/console-values.ts';
import type { Store } from '../../store/store.ts';
import { memoize } from '../../connections/connections.ts';
import type { ManagementContext } from '../context.ts';

const RECORD = /^\/console\/(accounts|connectors)\/([\w-]+)$/;

/** A deleted record keeps its id. */
export async function withNames(
  { services: { store } }: ManagementContext,
  rows: readonly ConsoleItem[],
): Promise<ConsoleItem[]> {
  const nameOf = memoize((path: string) => findName(store, path));
  const named = async (field: ConsoleField): Promise<ConsoleField> => {
    const { href = '', text = '' } = field;
    if (text === '' || !href.endsWith(`/${text}`) || !RECORD.test(href)) return field;
    return { ...field, text: (await nameOf(href)) ?? text };
  };
  const all = rows.map(async (row) => ({
    ...row,
    ...(row.facts ? { facts: await Promise.all(row.facts.map(named)) } : {}),
    fields: await Promise.all(row.fields.map(named)),
  }));
  return Promise.all(all);
}

async function findName(store: Store, path: string): Promise<string | undefined> {
  const [, kind, id = ''] = RECORD.exec(path) ?? [];
  if (kind === 'connectors') return (await findConnector(store, id))?.name;
  const account = await findAccount(store, id);
  return account && ((verifiedEmailOf(account) ?? account.name) || undefined);
}
