import { randomUUID } from 'node:crypto';
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import { KEEP, type Store } from '../../store/store.ts';

type StoredPayload = AdapterPayload & { consumedBy?: string };

/**
 * Stores the engine's state under keys that start with `development-`. `model` is the engine's name for a kind of record, such as
 * `AuthorizationCode`. Lifetimes are in seconds.
 */
export function storeAdapter(store: Store, model: string, now: () => number): Adapter {
  const kind = `development-${model.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()}`;
  const key = (id: string) => `${kind}:${id}`;
  const uidKey = (uid: string) => `${kind}-uid:${uid}`;
  const find = async (id: string) => (await store.get<StoredPayload>(key(id)))?.value;

  return {
    find,
    async upsert(id, payload, expiresIn = Infinity) {
      await store.set(key(id), payload, expiresIn);
      if (payload.uid) await store.set(uidKey(payload.uid), id, expiresIn);
    },
    async findByUid(uid) {
      const id = await store.get<string>(uidKey(uid));
      return id && find(id.value);
    },
    async consume(id) {
      await consumeOnce(store, key(id), now());
    },
    async destroy(id) {
      await store.delete(key(id));
    },
    // The engine also deletes the grant, and refuses everything issued under a deleted grant.
    async revokeByGrantId() {},
    // Used only by the device flow, which is off.
    async findByUserCode() {
      return undefined;
    },
  };
}

/** Exactly one of several callers succeeds. The others get `invalid_grant` (RFC 6749 section 4.1.2). */
async function consumeOnce(store: Store, key: string, consumed: number): Promise<void> {
  const consumedBy = randomUUID();
  const after = await store.update<StoredPayload>(key, (current) => {
    if (!current || current.consumed) return KEEP;
    return {
      value: { ...current, consumed, consumedBy },
      ttl: (current.exp ?? consumed) - consumed,
    };
  });
  if (after?.value.consumedBy !== consumedBy)
    throw new errors.InvalidGrant('the code was already used');
}
