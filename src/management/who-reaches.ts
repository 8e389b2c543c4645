// Through what a tool can be reached, and how many people are connected there.
import { listConnections } from '../connections/connections.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { notFound } from '../http/errors.ts';
import { listConnectors } from '../links/connectors.ts';
import { listMintedTokens } from '../links/minted-tokens.ts';
import { describeEntitlement } from '../people/entitlement.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import type { ApiRequest } from './api/operations.ts';
import { findMachines } from './apply/machines.ts';
import type { ManagementContext } from './context.ts';
import { knownServer, openersOf } from './explained-tools.ts';
import type { WhoReaches } from './resources/access.ts';

/** People wait for the answer. */
const MAX_COUNTED = 2000;
const MAX_CONNECTORS_COUNTED = 150;
const BATCH = 10;

export async function whoReaches(
  management: ManagementContext,
  { query: { tool, upstream: wanted } }: ApiRequest<'listWhoReaches'>,
): Promise<WhoReaches> {
  const { settings, services } = management;
  const { store, now } = services;
  const asked =
    wanted === undefined
      ? settings.upstreams
      : settings.upstreams.filter(({ id }) => id === wanted);
  if (wanted !== undefined && asked.length === 0)
    throw notFound('there is no upstream with this id');
  const servers = await Promise.all(
    asked.map(async (each) =>
      knownServer(settings, each, await findKnownTools(store, each), now()),
    ),
  );
  const listing = servers.filter(({ tools }) => tools.some(({ name }) => name === tool));
  if (listing.length === 0) throw notFound('no MCP server is known to have a tool with this name');
  const [connectors, tokens, found] = await Promise.all([
    listConnectors(store),
    listMintedTokens(store, now()),
    findMachines(management),
  ]);
  const machines = found.filter(({ isRevoked }) => !isRevoked);
  const reached = listing.map((server) => ({
    upstream: server.upstream.id,
    level: server.tools.find(({ name }) => name === tool)?.level,
    ...openersOf(settings, server, tool, { connectors, tokens, machines }, now()),
  }));
  const opened = reached.flatMap(({ upstream, connectors: open }) =>
    open.map(({ id, name, level, used }) => ({ id, name, level, upstream, used })),
  );
  const people = await countPeople(management, opened);
  return {
    tool,
    upstreams: reached.map(({ upstream, level }) => ({ upstream, level })),
    rules: reached.flatMap(({ upstream, rules }) =>
      rules.map((rule) => ({
        ...describeEntitlement(rule.place, rule),
        upstream,
        tools: rule.tools,
      })),
    ),
    connectors: opened.map(({ used: _used, ...each }) => ({ ...each, people: people.of(each.id) })),
    tokens: reached.flatMap(({ upstream, tokens: open }) =>
      open.map(({ id, name, level }) => ({ id, name, level, upstream })),
    ),
    machines: reached.flatMap(({ machines: open }) =>
      open.map(({ id, name, level, machine: { connector } }) => ({ id, name, level, connector })),
    ),
    ...(people.isPartial ? { arePeoplePartial: true as const } : {}),
  };
}

/** Counts the people with a connection that works, by connector: of those with most uses, and among the first MAX_COUNTED connections. */
async function countPeople(
  { settings, services }: ManagementContext,
  connectors: readonly { id: string; used: number }[],
): Promise<{ of: (connector: string) => number | undefined; isPartial: boolean }> {
  const people = new Map<string, Set<string>>();
  let read = 0;
  const count = async (connector: string) => {
    const found = new Set<string>();
    people.set(connector, found);
    for await (const { item } of listConnections(settings, services, { connector })) {
      const { state, account } = item;
      if (state === 'active' && !isMachineSubject(account.id)) found.add(account.id);
      read += 1;
      if (read >= MAX_COUNTED) return;
    }
  };
  // Every connection takes a use.
  const used = connectors
    .filter((connector) => connector.used > 0)
    .toSorted((one, other) => other.used - one.used);
  const most = Math.min(used.length, MAX_CONNECTORS_COUNTED);
  for (let from = 0; from < most; from += BATCH) {
    if (read >= MAX_COUNTED) break;
    await Promise.all(used.slice(from, Math.min(from + BATCH, most)).map(({ id }) => count(id)));
  }
  const uncounted = new Set(used.map(({ id }) => id).filter((id) => !people.has(id)));
  return {
    of: (connector) => (uncounted.has(connector) ? undefined : (people.get(connector)?.size ?? 0)),
    isPartial: read >= MAX_COUNTED || uncounted.size > 0,
  };
}
