// What a person may use through a connector, and through what a tool can be reached: the decision of lists and calls, for the known tools. Pure.
import { personAccess, type PersonAccessSettings } from '../connections/person-access.ts';
import { type Connector, isUsable } from '../links/connector.ts';
import type { MintedToken } from '../links/minted-tokens.ts';
import type { Machine } from '../clients/machines.ts';
import type { Account } from '../people/account.ts';
import { matchingRules } from '../people/entitlement.ts';
import { type Level, lowest } from '../permission-levels.ts';
import type { Via } from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream, type Upstream } from '../settings/upstreams.ts';
import {
  isOpen,
  type LeveledTool,
  rightsAt,
  toolsWithLevels,
  verdictOn,
} from '../upstreams/opened-tools.ts';
import { type ForbiddenBy, selectionOf } from '../upstreams/tool-access.ts';
import type { KnownTools } from '../upstreams/tool-pin-records.ts';

/** An MCP server with what is known of its tools. */
export type KnownServer = { upstream: Upstream; tools: readonly LeveledTool[]; isRead: boolean };

export function knownServer(
  settings: Pick<Settings, 'levels'>,
  upstream: Upstream,
  known: KnownTools,
  now: number,
): KnownServer {
  const tools = toolsWithLevels(settings.levels, upstream, known, now);
  return { upstream, tools, isRead: known.catalog?.seenAt !== undefined };
}

/** `access`: the person gets nothing through the connector. `unknown`: the server has no such tool. */
export type ExplainedBy = ForbiddenBy | 'access' | 'unknown';

export type ExplainedTool = {
  name: string;
  level: Level | undefined;
  allowed: boolean;
  forbiddenBy?: ExplainedBy;
};

type Asked = { account: Account; via: Via; connector: Connector; server: KnownServer | undefined };

/** What the person gets with the highest level that they can grant. With `tool`, says only what is decided about it. */
export function explainTools(
  settings: PersonAccessSettings,
  { account, via, connector, server }: Asked,
  { tool, now }: { tool?: string | undefined; now: number },
) {
  const access = personAccess(settings, connector, account, { via, now });
  const matching = matchingRules(settings, account, via);
  const selection = selectionOf({ connector }, matching);
  const decided = (known: LeveledTool): ExplainedTool => {
    const { name, level } = known;
    if (access.level === null) return { name, level, allowed: false, forbiddenBy: 'access' };
    const verdict = verdictOn(settings.levels, rightsAt(access.level, selection), known);
    return verdict.decision === 'forbidden'
      ? { name, level, allowed: false, forbiddenBy: verdict.by }
      : { name, level, allowed: true };
  };
  const known = server?.tools ?? [];
  const asked = tool === undefined ? known : known.filter(({ name }) => name === tool);
  const tools: ExplainedTool[] =
    tool !== undefined && asked.length === 0
      ? [{ name: tool, level: undefined, allowed: false, forbiddenBy: 'unknown' }]
      : asked.map(decided);
  const rules = matching.map(({ place, level, tools: opened }) => ({
    rule: `entitlements[${place}]`,
    level,
    tools: opened,
  }));
  return { access, rules, tools };
}

export type Openers = {
  connectors: readonly Connector[];
  tokens: readonly MintedToken[];
  machines: readonly { id: string; name: string; machine: Machine }[];
};

/** Through what a tool of a server can be reached. Connectors are for people whom one of the rules matches. */
export function openersOf(
  settings: PersonAccessSettings,
  { upstream, tools }: KnownServer,
  tool: string,
  { connectors, tokens, machines }: Openers,
  now: number,
) {
  const { levels, entitlements, upstreams } = settings;
  const known = tools.find(({ name }) => name === tool);
  const opens = (held: Level, owners: Parameters<typeof selectionOf>[0]) =>
    known !== undefined && isOpen(levels, rightsAt(held, selectionOf(owners)), known);
  const leadsHere = (record: { upstream?: string }) =>
    findUpstream(upstreams, record)?.id === upstream.id;
  const rules = entitlements.flatMap((rule, place) => {
    const rights = rightsAt(rule.level, selectionOf({}, [rule]));
    return known && isOpen(levels, rights, known) ? [{ ...rule, place }] : [];
  });
  const usable = new Map(
    connectors
      .filter((connector) => leadsHere(connector) && isUsable(connector, now, settings))
      .map((connector) => [connector.id, connector]),
  );
  return {
    rules,
    connectors:
      rules.length === 0
        ? []
        : [...usable.values()].filter((connector) => opens(connector.level, { connector })),
    tokens: tokens.filter((token) => leadsHere(token) && opens(token.level, { token })),
    machines: machines.flatMap(({ id, name, machine }) => {
      const connector = usable.get(machine.connector);
      if (!connector || machine.expiresAt <= now) return [];
      const level = lowest(levels, connector.level, machine.level);
      return opens(level, { connector, machine }) ? [{ id, name, level, machine }] : [];
    }),
  };
}
