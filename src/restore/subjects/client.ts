// Apps that were revoked, and rules about apps.
import { findEndedState, revokeClient } from '../../clients/clients.ts';
import {
  addRule,
  listRules,
  MAX_RULES,
  removeRule,
  ruleId,
  ruleSubjectIn,
} from '../../clients/rules.ts';
import { endConnections, listConnections } from '../../connections/connections.ts';
import { endBlocked } from '../../management/client-rules.ts';
import { type Restoring, type Subject, timeOf } from './subject.ts';

/** Also for apps that the store does not know: they may register again under their id. */
export const client: Subject = {
  idIn: ({ clientId }) => clientId,
  async plan(restoring, id, items) {
    const { settings, services, by } = restoring;
    const { store } = services;
    const last = items.at(-1);
    if (last?.event !== 'client_revoked') return undefined;
    const isRevoked = (await findEndedState(store, id, { redirectUris: [] })) === 'revoked';
    if (isRevoked && !(await hasConnection(restoring, id))) return undefined;
    return async () => {
      await revokeClient(store, id, timeOf(last));
      await endConnections(settings, services, { client: id }, 'client_revoked', by);
    };
  },
};

async function hasConnection({ settings, services }: Restoring, id: string): Promise<boolean> {
  for await (const { item } of listConnections(settings, services, { client: id }))
    if (item.state !== 'ended') return true;
  return false;
}

/** A block that was added, or an allowed app that is not any more. */
export const clientRule: Subject = {
  idIn(item) {
    const subject = ruleSubjectIn(item.arguments);
    return subject && ruleId(subject);
  },
  async plan(restoring, id, items) {
    const { store } = restoring.services;
    const last = items.at(-1);
    const subject = ruleSubjectIn(last?.arguments);
    if (!last || !subject) return undefined;
    const isThere = (await listRules(store)).some((rule) => ruleId(rule) === id);
    if (last.event === 'client_rule_removed') {
      if (subject.effect === 'block' || !isThere) return undefined;
      return async () => void (await removeRule(store, id));
    }
    if (subject.effect === 'allow' || isThere) return undefined;
    const rule = { ...subject, createdAt: timeOf(last), by: last.by };
    return async () => {
      if ((await addRule(store, rule)) === 'full')
        throw new Error(
          `there are already ${MAX_RULES} rules about apps, so that none can be added`,
        );
      await endBlocked(restoring);
    };
  },
};
