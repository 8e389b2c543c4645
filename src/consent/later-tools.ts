// Tools that came after a person's approval, and are open to the connection all the same.
import type { Connection } from '../connections/connection.ts';
import { memoize } from '../connections/connections.ts';
import { findConnector } from '../links/connectors.ts';
import { type Account, viaOfAccount } from '../people/account.ts';
import { matchingRules } from '../people/entitlement.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { openedTools } from '../upstreams/opened-tools.ts';
import { selectionOf } from '../upstreams/tool-access.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import { NO_PINS, toolsSince } from '../upstreams/tool-pins.ts';
import type { InteractionContext } from './interaction.ts';

/** Returns their titles. Each server is read once. */
export function laterTools(
  { settings, services: { store, now } }: Pick<InteractionContext, 'settings' | 'services'>,
  account: Account,
): (connection: Connection) => Promise<string[]> {
  const matching = matchingRules(settings, account, viaOfAccount(account));
  const serverOf = memoize(async (id: string | undefined) => {
    const upstream = findUpstream(settings.upstreams, { upstream: id });
    return upstream && { upstream, known: await findKnownTools(store, upstream) };
  });
  return async ({ level, createdAt, connector: { id, upstream } }) => {
    const [server, connector] = await Promise.all([serverOf(upstream), findConnector(store, id)]);
    if (!server || !connector || level === undefined) return [];
    const only = toolsSince(server.known.pins ?? NO_PINS, createdAt);
    if (only.size === 0) return [];
    const selection = selectionOf({ connector }, matching);
    const options = { selection, now: now(), only };
    return openedTools(settings.levels, server.upstream, server.known, options)(level);
  };
}
