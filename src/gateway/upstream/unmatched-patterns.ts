// Lists of tools with patterns that match no tool of an MCP server, also because its tools changed.
import { listConnectors } from '../../links/connectors.ts';
import { listMintedTokens } from '../../links/minted-tokens.ts';
import type { Settings } from '../../settings/settings.ts';
import { findUpstream, type Upstream } from '../../settings/upstreams.ts';
import type { Store } from '../../store/store.ts';
import { findCatalog } from '../../upstreams/tool-catalog.ts';
import { unmatchedPatterns } from '../../upstreams/tool-list.ts';

type Context = {
  settings: Pick<Settings, 'entitlements' | 'upstreams'>;
  store: Store;
  /** Seconds since the epoch. */
  now: number;
};

/** Describes each such list: `entitlements[2]: drop_*`. An entitlement is about all servers, so all of them have to be known. */
export async function listsWithoutMatch(
  { settings, store, now }: Context,
  upstream: Upstream,
  names: readonly string[],
): Promise<string[]> {
  const others = settings.upstreams.filter(({ id }) => id !== upstream.id);
  const [connectors, tokens, catalogs] = await Promise.all([
    listConnectors(store),
    listMintedTokens(store, now),
    Promise.all(others.map((other) => findCatalog(store, other))),
  ]);
  const leadsHere = (record: { upstream?: string }) =>
    findUpstream(settings.upstreams, record)?.id === upstream.id;
  const describe = (what: string, patterns: readonly string[] = [], all = names) => {
    const unmatched = unmatchedPatterns(patterns, all);
    return unmatched.length > 0 ? [`${what}: ${unmatched.join(' ')}`] : [];
  };
  const areAllRead = catalogs.every((catalog) => catalog?.seenAt !== undefined);
  const everywhere = [
    ...names,
    ...catalogs.flatMap((catalog) => catalog?.tools.map(({ name }) => name) ?? []),
  ];
  return [
    ...(areAllRead ? settings.entitlements : []).flatMap(({ tools }, place) =>
      describe(`entitlements[${place}].tools`, tools, everywhere),
    ),
    ...connectors
      .filter((connector) => leadsHere(connector) && connector.revokedAt === undefined)
      .flatMap(({ id, tools }) => describe(`connector ${id}`, tools)),
    ...tokens.filter(leadsHere).flatMap(({ id, tools }) => describe(`minted token ${id}`, tools)),
  ];
}
