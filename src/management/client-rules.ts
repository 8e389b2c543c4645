// Blocks of hosts and names, and apps that are allowed whatever they register.
import type { AuditServices } from '../audit/audit.ts';
import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import { type Client, findClient, findClients } from '../clients/clients.ts';
import {
  addRule,
  type ClientRule as Stored,
  listRules,
  MAX_RULES,
  removeRule,
  ruleId,
  type RuleSubject,
} from '../clients/rules.ts';
import { endConnections, listConnections } from '../connections/connections.ts';
import { connectedClients, connectedClientSets } from '../connections/grant-lists.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { represent } from './represent.ts';
import {
  type BlockBody,
  type ClientRule,
  type clientRuleOperations,
  clientRuleSchema,
} from './resources/client-rule.ts';

export const clientRuleHandlers: Handlers<keyof typeof clientRuleOperations> = {
  async listClientRules({ services }) {
    return { items: (await listRules(services.store)).map(resource) };
  },

  /** Repeat it after a failure: the connections that are left then end. */
  async blockClients(management, { body }) {
    // Block before ending grants: a concurrent approval either sees the block or its grant is ended here.
    const rule = await addClientRule(management, { effect: 'block', ...body }, 'client_blocked');
    return { ...resource(rule), endedGrants: await endBlocked(management) };
  },

  async removeClientRule(management, { id }) {
    const { services } = management;
    const { store } = services;
    const rule = (await listRules(store)).find((known) => ruleId(known) === id);
    if (!rule) throw unknownRule();
    const item = ruleItem(management, 'client_rule_removed', rule);
    const removed = await recordChange(services, item, {
      make: () => removeRule(store, id),
      itemOf: (made) => made && ruleItem(management, 'client_rule_removed', made),
    });
    if (!removed) throw unknownRule();
    return resource(removed);
  },
};

/** What a block would end now. `isAll` is false if there was too much to count. */
type BlockPreview = {
  /** The number of matching clients that are connected. */
  clients: number;
  connections: number;
  /** The names of these clients, those with the most connections first. */
  names: { name: string; connections: number }[];
  isAll: boolean;
};

/** A preview reads at most this many clients, and as many of their connections. */
const MAX_PREVIEWED = 5000;
const BATCH_CLIENTS = 100;

/** Counts what `blockClients` would end. Changes nothing. */
export async function previewBlock(
  management: ManagementContext,
  subject: BlockBody,
): Promise<BlockPreview> {
  const { settings, services } = management;
  const matching = await findMatching(management, subject);
  const connected = new Map<Client, number>();
  let left = MAX_PREVIEWED;
  for (const client of matching.clients) {
    for await (const { item } of listConnections(settings, services, { client: client.id })) {
      if (left === 0) break;
      left -= 1;
      if (item.state !== 'ended') connected.set(client, (connected.get(client) ?? 0) + 1);
    }
    if (left === 0) break;
  }
  return { ...countsOf(connected), isAll: matching.isAll && left > 0 };
}

function countsOf(connected: ReadonlyMap<Client, number>): Omit<BlockPreview, 'isAll'> {
  const names = new Map<string, number>();
  for (const [{ id, name = id }, count] of connected)
    names.set(name, (names.get(name) ?? 0) + count);
  return {
    clients: connected.size,
    connections: [...connected.values()].reduce((sum, count) => sum + count, 0),
    names: [...names]
      .map(([name, connections]) => ({ name, connections }))
      .toSorted((one, other) => other.connections - one.connections),
  };
}

/** Returns the clients that this rule alone blocks, of those that had a grant. The last quarter comes first. */
async function findMatching(
  { settings, services: { store, now } }: ManagementContext,
  subject: BlockBody,
): Promise<{ clients: Client[]; isAll: boolean }> {
  const rules: Stored[] = [{ effect: 'block', ...subject, createdAt: now() }];
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  const seen = new Set<string>();
  const clients: Client[] = [];
  for (const key of connectedClientSets({ lifetime, now: now() }).toReversed()) {
    for (let after: string | undefined; ;) {
      const ids = await store.page(key, { after, limit: BATCH_CLIENTS });
      const fresh = ids.filter((id) => !seen.has(id));
      if (seen.size + fresh.length > MAX_PREVIEWED) return { clients, isAll: false };
      for (const id of fresh) seen.add(id);
      for (const client of await findClients(store, fresh, settings.clients, rules))
        if (client?.state === 'blocked') clients.push(client);
      if (ids.length < BATCH_CLIENTS) break;
      after = ids.at(-1);
    }
  }
  return { clients, isAll: true };
}

/** Records the event for the one call that added the rule. */
export async function addClientRule(
  management: ManagementContext,
  subject: RuleSubject,
  event: string,
  fromFile: Pick<Stored, 'key' | 'isUnfinished'> = {},
): Promise<Stored> {
  const { services, by } = management;
  const rule = { ...subject, createdAt: Math.floor(services.now()), by };
  const item = ruleItem(management, event, rule);
  const result = await recordChange(services, item, {
    make: () => addRule(services.store, { ...rule, ...fromFile }),
    itemOf: (made) => (made === 'added' ? item : undefined),
  });
  if (result === 'full')
    throw new HttpError(
      409,
      'too_many_rules',
      `there are already ${MAX_RULES} rules: remove some first`,
    );
  const rules = await listRules(services.store);
  return rules.find((known) => ruleId(known) === ruleId(rule)) ?? rule;
}

/** Ends the grants of all connected clients that a rule blocks. Resolves to their number. */
export async function endBlocked({
  settings,
  services,
  by,
}: Pick<ManagementContext, 'settings' | 'by'> & { services: AuditServices }): Promise<number> {
  const { store, now } = services;
  const lifetime = settings.lifetimes.refreshTokenAbsolute;
  let ended = 0;
  for (const id of await connectedClients(store, { lifetime, now: now() })) {
    const client = await findClient(store, id, settings.clients);
    if (client?.state === 'blocked')
      ended += await endConnections(settings, services, { client: id }, 'client_blocked', by);
  }
  return ended;
}

export function ruleItem(
  { by }: ManagementContext,
  event: string,
  { createdAt: _createdAt, by: _by, isUnfinished: _isUnfinished, ...subject }: Stored,
): ChangeItem {
  return { event, arguments: subject, by };
}

function unknownRule(): HttpError {
  return notFound('there is no rule with this id');
}

function resource(rule: Stored): ClientRule {
  return represent(clientRuleSchema, { ...rule, id: ruleId(rule) });
}
