// The engine's storage adapter: grants and their tokens in one record, clients with their own lifetime, other models as plain keys.
import type { Adapter, AdapterPayload } from 'oidc-provider';
import type { Store } from '../../store/store.ts';
import type { Clients } from './clients.ts';
import { mapStoreErrors } from './errors.ts';

const nothing = async () => undefined;

/** The engine's adapter factory, called with the name of a model. Store errors become 503 `temporarily_unavailable`. */
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
      Object.entries(methods).map(([name, method]) => [name, mapStoreErrors(method)]),
    ) as unknown as Adapter;
  };
}

/** For models such as Interaction: one key each, with the engine's TTL in seconds. */
export function plainModel(store: Store, kind: string): Partial<Adapter> {
  const key = (id: string) => `${kind.toLowerCase()}:${id}`;
  return {
    upsert: (id, payload, expiresIn = Infinity) =>
      store.set<AdapterPayload>(key(id), payload, expiresIn),
    find: async (id) => (await store.get<AdapterPayload>(key(id)))?.value,
    destroy: (id) => store.delete(key(id)),
  };
}

/** The cookie has a session id that changes; an interaction keeps the session's uid, which resolves to the current id. */
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
