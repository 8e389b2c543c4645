// What the engine stores, on our store: grants and their tokens in one record, clients with a life of their own, the rest plain keys.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import type { Store } from '../../store/store.ts';
import type { Clients } from './clients.ts';
import { guarded } from './refusals.ts';

const nothing = async () => undefined;

/** A factory as the engine wants it: called with the model's name. Store faults leave as 503 `temporarily_unavailable`. */
export function createAdapter(
  store: Store,
  grantModels: Record<string, Partial<Adapter>>,
  clients: Clients,
): (model: string) => Adapter {
  const models: Record<string, Partial<Adapter>> = {
    ...grantModels,
    Client: clients.model,
    Session: sessionModel(store),
  };
  return (model) => {
    const own = models[model] ?? plainModel(store, model);
    const methods: Adapter = {
      upsert: nothing,
      find: nothing,
      findByUserCode: nothing,
      findByUid: nothing,
      consume: nothing,
      destroy: nothing,
      revokeByGrantId: nothing,
      ...own,
    };
    return Object.fromEntries(
      Object.entries(methods).map(([name, method]) => [name, guarded(method)]),
    ) as unknown as Adapter;
  };
}

/** Session, Interaction and the like: one key each, with the engine's own lifetime in seconds. */
export function plainModel(store: Store, kind: string): Partial<Adapter> {
  const key = (id: string) => `${kind.toLowerCase()}:${id}`;
  return {
    upsert: (id, payload, expiresIn = Infinity) =>
      store.set<AdapterPayload>(key(id), payload, expiresIn),
    find: async (id) => (await store.get<AdapterPayload>(key(id)))?.value,
    destroy: (id) => store.delete(key(id)),
  };
}

/** A browser knows its session by a changing id, a flow in progress by one that stays: the second leads to the first. */
function sessionModel(store: Store): Partial<Adapter> {
  const sessions = plainModel(store, 'session');
  const uidKey = (uid: string) => `session-uid:${uid}`;
  return {
    ...sessions,
    async upsert(id, payload, expiresIn = Infinity) {
      await sessions.upsert?.(id, payload, expiresIn);
      if (payload.uid) await store.set(uidKey(payload.uid), id, expiresIn);
    },
    async findByUid(uid) {
      const id = (await store.get<string>(uidKey(uid)))?.value;
      return id === undefined ? undefined : sessions.find?.(id);
    },
  };
}
