// The connector that a fresh development checkout starts with, so that there is a link to paste.
import type { Store } from '../store/store.ts';
import { type Connector, connectorState } from './connector.ts';
import { createConnector, listConnectors } from './connectors.ts';

/** The oldest one that can be used; the first one is made when there is none. Undefined when all are over. */
export async function firstConnector(store: Store, now: number): Promise<Connector | undefined> {
  const all = await listConnectors(store);
  if (all.length === 0) return createConnector(store, { name: 'first', level: 'operations' }, now);
  return all.find((connector) => connectorState(connector, now) === 'active');
}
