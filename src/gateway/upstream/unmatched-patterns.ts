// Lists of tools with patterns that match no tool of an MCP server, also because its tools changed.
import { findMachine, machineIds } from '../../clients/machines.ts';
import { connectedClients } from '../../connections/grant-lists.ts';
import { listConnectors } from '../../links/connectors.ts';
import { listMintedTokens } from '../../links/minted-tokens.ts';
import type { Settings } from '../../settings/settings.ts';
import { findUpstream, type Upstream } from '../../settings/upstreams.ts';
import type { Store } from '../../store/store.ts';
import { findCatalog } from '../../upstreams/tool-catalog.ts';
import { unmatchedPatterns } from '../../upstreams/tool-list.ts';

type Context = {
  settings: Pick<Settings, 'authorization' | 'entitlements' | 'lifetimes' | 'upstreams'>;
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
  const [connectors, tokens, machines, catalogs] = await Promise.all([
    listConnectors(store),
    listMintedTokens(store, now),
    machinesWithTools({ settings, store, now }),
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
  const here = connectors.filter(
    (connector) => leadsHere(connector) && connector.revokedAt === undefined,
  );
  const leadsThrough = (named: string) => here.some(({ id, name }) => [id, name].includes(named));
  return [
    ...(areAllRead ? settings.entitlements : []).flatMap(({ tools }, place) =>
      describe(`entitlements[${place}].tools`, tools, everywhere),
    ),
    ...here.flatMap(({ id, tools }) => describe(`connector ${id}`, tools)),
    ...machines
      .filter(({ connector }) => leadsThrough(connector))
      .flatMap(({ id, tools }) => describe(`machine ${id}`, tools)),
    ...workloadsIn(settings)
      .filter(({ connector }) => leadsThrough(connector))
      .flatMap(({ id, tools }) => describe(`workload ${id}`, tools)),
    ...tokens.filter(leadsHere).flatMap(({ id, tools }) => describe(`minted token ${id}`, tools)),
  ];
}

/** `connector` is an id, or of a workload maybe a name. */
type Opener = { id: string; connector: string; tools?: readonly string[] | undefined };

const BATCH = 100;

async function machinesWithTools({ settings, store, now }: Context): Promise<Opener[]> {
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const ids = await machineIds(store, () => connectedClients(store, { lifetime, now }));
  const found: Opener[] = [];
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH).map(async (id) => {
      const machine = await findMachine(store, id);
      if (machine && machine.expiresAt > now) found.push({ ...machine, id });
    });
    await Promise.all(batch);
  }
  return found;
}

function workloadsIn({ authorization }: Context['settings']): Opener[] {
  return authorization.trustedIssuers.flatMap(({ id: issuer, workloads }) =>
    workloads.map(({ id, connector, tools }) => ({ id: `${issuer}:${id}`, connector, tools })),
  );
}
