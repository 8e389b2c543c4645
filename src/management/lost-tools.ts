// The tools that connections lose by a change of the settings, of their connector or of their machine.
import { memoize, type Reading } from '../connections/connections.ts';
import type { ToolLoss, ToolLosses } from '../connections/affected.ts';
import { type GrantRecord, isLive, viaOf } from '../connections/grant-record.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import type { Connector } from '../links/connector.ts';
import { findConnector } from '../links/connectors.ts';
import type { MintedToken } from '../links/minted-tokens.ts';
import { findAccount } from '../people/accounts.ts';
import { matchingRules } from '../people/entitlement.ts';
import { isAtLeast, type Level, type Levels } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { findWorkload } from '../settings/workloads.ts';
import { isOpen, rightsAt } from '../upstreams/opened-tools.ts';
import { opensAllWith, type Selection, selectionOf } from '../upstreams/tool-access.ts';
import { type NamedKind, NAMED_KINDS } from '../upstreams/tool-list.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import { type KnownServer, knownServer } from './explained-tools.ts';

/** What holds before or after a change. Records that are not given are as they are stored. */
export type Situation = {
  settings: Settings;
  connector?: Connector;
  /** The tools of machines, by the id of their grant. */
  machines?: ReadonlyMap<string, readonly string[] | undefined>;
};

export type Change = { before: Situation; after: Situation };

/** What a connection may use. `server` is undefined for the sample. */
type Opened = {
  levels: Levels;
  level: Level;
  selection: Selection;
  server: KnownServer | undefined;
};

/** Returns what reads the server of an upstream id once for each side. */
function serversOf({ store, now }: Reading, { before, after }: Change) {
  const serversIn = ({ settings }: Situation) =>
    memoize(async (id: string | undefined) => {
      const upstream = findUpstream(settings.upstreams, { upstream: id });
      if (!upstream) return undefined;
      // A changed address says nothing about the tools.
      const read = findUpstream(before.settings.upstreams, { upstream: id }) ?? upstream;
      return knownServer(settings, upstream, await findKnownTools(store, read), now());
    });
  return { before: serversIn(before), after: serversIn(after) };
}

/** As `toolLosses`, for minted tokens. */
export function toolLossesOfTokens(services: Reading, change: Change) {
  const servers = serversOf(services, change);
  return async (token: MintedToken): Promise<ToolLoss> => {
    const openedIn = async (side: keyof Change): Promise<Opened> => ({
      levels: change[side].settings.levels,
      level: token.level,
      selection: selectionOf({ token }),
      server: await servers[side](token.upstream),
    });
    return lossBetween({ before: await openedIn('before'), after: await openedIn('after') });
  };
}

/** Compares what calls may use before and after. A lower level alone is no loss here. */
export function toolLosses(services: Reading, change: Change): ToolLosses {
  const { store } = services;
  const connectorOf = memoize((id: string) => findConnector(store, id));
  const accountOf = memoize((id: string) => findAccount(store, id));
  const servers = serversOf(services, change);
  const known = new Map<string, ToolLoss>();

  async function openedIn(
    side: keyof Change,
    { id, level }: { id: string; level: Level },
    stored: GrantRecord,
  ): Promise<Opened> {
    const { settings, connector: changed, machines } = change[side];
    const { accountId } = stored.grant;
    const isMachine = isMachineSubject(accountId);
    const [connector, account] = await Promise.all([
      changed?.id === stored.connector ? changed : connectorOf(stored.connector),
      isMachine ? undefined : accountOf(accountId),
    ]);
    const machine = machines?.has(id) ? { tools: machines.get(id) } : stored.machine;
    const rule = findWorkload(settings.authorization.trustedIssuers, accountId)?.rule;
    const matching = account && matchingRules(settings, account, viaOf(stored));
    return {
      levels: settings.levels,
      level,
      selection: selectionOf({ connector, machine: rule ?? machine }, matching),
      server: connector && (await servers[side](connector.upstream)),
    };
  }

  return async (stored, { id, level: from }, { level: to }) => {
    if (!isLive(stored) || from === undefined || to === undefined) return {};
    const [before, after] = await Promise.all([
      openedIn('before', { id, level: from }, stored),
      openedIn('after', { id, level: to }, stored),
    ]);
    const key = JSON.stringify([stored.connector, from, to, before.selection, after.selection]);
    const loss = known.get(key) ?? lossBetween({ before, after });
    known.set(key, loss);
    return loss;
  };
}

function lossBetween({ before, after }: Record<keyof Change, Opened>): ToolLoss {
  const left = new Set(namesOf(after));
  const isLostAtLevel = namesOf({ ...before, level: after.level }).some((name) => !left.has(name));
  const lostTools = isLostAtLevel ? namesOf(before).filter((name) => !left.has(name)) : [];
  const unknown = NAMED_KINDS.filter((kind) => kind !== 'tool' || !before.server?.isRead);
  const { levels, level, selection } = after;
  const opensAll = opensAllWith(levels, level, {
    selection,
    other: before.selection,
    kinds: unknown,
  });
  const mayLoseUnknown = !opensAll || needMore({ before, after }, unknown);
  return {
    ...(lostTools.length > 0 ? { lostTools } : {}),
    ...(mayLoseUnknown ? { mayLoseUnknown } : {}),
  };
}

function namesOf({ levels, level, selection, server }: Opened): string[] {
  const rights = rightsAt(level, selection);
  return (server?.tools ?? [])
    .filter((tool) => isOpen(levels, rights, tool))
    .map(({ name }) => name);
}

/** Whether the settings require a level that the connection has not, of something whose level it had. */
function needMore(
  { before, after }: Record<keyof Change, Opened>,
  kinds: readonly NamedKind[],
): boolean {
  const [was, becomes] = [requiredLevels(before, kinds), requiredLevels(after, kinds)];
  if (!was || !becomes) return false;
  const has = ({ levels, level }: Opened, { named, others }: RequiredLevels, name: string) =>
    isAtLeast(levels, level, named.get(name) ?? others);
  return ['', ...was.named.keys(), ...becomes.named.keys()].some(
    (name) => has({ ...before, level: after.level }, was, name) && !has(after, becomes, name),
  );
}

/** By the text of each entry of the settings, with its kind. */
type RequiredLevels = { named: ReadonlyMap<string, Level>; others: Level };

function requiredLevels(
  { server }: Opened,
  kinds: readonly NamedKind[],
): RequiredLevels | undefined {
  if (!server) return undefined;
  const { tools, resources, prompts, defaultLevel } = server.upstream;
  const entries = [
    ...tools.map(({ name, level }) => ({ kind: 'tool' as const, name, level })),
    ...resources.map(({ uri, level }) => ({ kind: 'resource' as const, name: uri, level })),
    ...prompts.map(({ name, level }) => ({ kind: 'prompt' as const, name, level })),
  ].filter(({ kind }) => kinds.includes(kind));
  const named = new Map(entries.map(({ kind, name, level }) => [`${kind} ${name}`, level]));
  return { named, others: defaultLevel };
}
