// Development starts with a connector, named after the MCP server or the sample, so that there is a link to paste.
import type { Store } from '../store/store.ts';
import { type Connector, type ConnectorSettings, connectorState } from './connector.ts';
import { highestLevel, type Level } from '../permission-levels.ts';
import { createConnector, listConnectors } from './connectors.ts';

/**
 * Returns the oldest active connector, or creates one if there is none for these settings. Undefined if all are expired, revoked, paused or used up.
 */
export async function firstConnector(
  store: Store,
  now: number,
  settings: ConnectorSettings,
): Promise<Connector | undefined> {
  const all = (await listConnectors(store)).map((connector) => ({
    connector,
    state: connectorState(connector, now, settings),
  }));
  const [upstream] = settings.upstreams;
  if (all.every(({ state }) => state === 'unconfigured'))
    return createConnector(
      store,
      {
        name: upstream?.name ?? SAMPLE_NAME,
        level: firstLevel(settings),
        ...(upstream ? { upstream: upstream.id } : {}),
      },
      now,
    );
  return all.find(({ state }) => state === 'active')?.connector;
}

/** Read on the consent page: "Connect Claude to Sample club?" */
const SAMPLE_NAME = 'Sample club';

/** That of an upstream opens every tool: most of them need the highest level unless the settings say otherwise. */
function firstLevel({ levels, upstreams }: ConnectorSettings): Level {
  return upstreams.length > 0 ? highestLevel(levels) : 'operations';
}
