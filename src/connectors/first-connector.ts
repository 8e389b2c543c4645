// Development starts with a connector, so that there is a link to paste.
import type { Store } from '../store/store.ts';
import { type Connector, type ConnectorSettings, connectorState } from './connector.ts';
import { createConnector, listConnectors } from './connectors.ts';

/** Returns the oldest active connector, or creates one if there is none at all. Undefined if all are expired, revoked or used up. */
export async function firstConnector(
  store: Store,
  now: number,
  settings: ConnectorSettings,
): Promise<Connector | undefined> {
  const all = await listConnectors(store);
  const [upstream] = settings.upstreams;
  if (all.length === 0)
    return createConnector(
      store,
      {
        name: 'first',
        level: 'operations',
        ...(upstream ? { upstream: upstream.id } : {}),
      },
      now,
    );
  return all.find((connector) => connectorState(connector, now, settings) === 'active');
}
