// Blocks of hosts and names, and apps that are allowed whatever they register.
import { recordAudit } from '../audit/audit.ts';
import { findClient } from '../clients/clients.ts';
import {
  addRule,
  type ClientRule,
  listRules,
  MAX_RULES,
  removeRule,
  ruleId,
} from '../clients/rules.ts';
import { endConnections } from '../connections/connections.ts';
import { connectedClients } from '../grants/grant-lists.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { BlockBody } from './api/requests.ts';
import type { BlockResource, ClientRuleResource } from './api/resources.ts';
import type { ManagementContext } from './context.ts';
import { isoTime } from './representations.ts';

export async function listClientRules({
  services,
}: ManagementContext): Promise<{ items: ClientRuleResource[] }> {
  const rules = await listRules(services.store);
  return { items: rules.map(ruleResource) };
}

/** Repeat it after a failure: the connections that are left then end. */
export async function blockClients(
  management: ManagementContext,
  subject: BlockBody,
): Promise<BlockResource> {
  // Block before ending grants: a concurrent approval either sees the block or its grant is ended here.
  const rule = await addClientRule(management, { effect: 'block', ...subject }, 'client_blocked');
  return { ...ruleResource(rule), endedGrants: await endBlocked(management) };
}

export async function removeClientRule(
  management: ManagementContext,
  id: string,
): Promise<ClientRuleResource> {
  const removed = await removeRule(management.services.store, id);
  if (!removed) throw notFound('there is no rule with this id');
  await record(management, 'client_rule_removed', removed);
  return ruleResource(removed);
}

type NewRule = BlockBody & { effect: 'block' };
type AllowedApp = { effect: 'allow'; name: string; destinations: string[] };

/** Records the event for the one call that added the rule. */
export async function addClientRule(
  management: ManagementContext,
  subject: NewRule | AllowedApp,
  event: string,
): Promise<ClientRule> {
  const { services, by } = management;
  const rule = { ...subject, createdAt: Math.floor(services.now()), by };
  const result = await addRule(services.store, rule);
  if (result === 'full')
    throw new HttpError(
      409,
      'too_many_rules',
      `there are already ${MAX_RULES} rules: remove some first`,
    );
  if (result === 'added') await record(management, event, rule);
  const rules = await listRules(services.store);
  return rules.find((known) => ruleId(known) === ruleId(rule)) ?? rule;
}

/** Ends the grants of all connected clients that a rule blocks. Resolves to their number. */
async function endBlocked({ settings, services, by }: ManagementContext): Promise<number> {
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

async function record(
  { services, by }: ManagementContext,
  event: string,
  { createdAt: _createdAt, by: _by, ...subject }: ClientRule,
): Promise<void> {
  await recordAudit(services, { event, arguments: subject, by, outcome: 'done' });
}

function ruleResource(rule: ClientRule): ClientRuleResource {
  const { createdAt, ...subject } = rule;
  const resource: ClientRuleResource = {
    id: ruleId(rule),
    ...subject,
    createdAt: isoTime(createdAt),
  };
  return resource;
}
