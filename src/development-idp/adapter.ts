// Where the engine of the development identity provider keeps its state: plain keys of the store, under kinds of their own.
import { randomUUID } from 'node:crypto';
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';
import { KEEP, type Store } from '../store/store.ts';

type Kept = AdapterPayload & { consumedBy?: string };

/** `model` is the engine's name for a kind of record, such as `AuthorizationCode`. Lifetimes are seconds. */
export function storeAdapter(store: Store, model: string, now: () => number): Adapter {
  const kind = `development-${model.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase()}`;
  const key = (id: string) => `${kind}:${id}`;
  const uidKey = (uid: string) => `${kind}-uid:${uid}`;
  const find = async (id: string) => (await store.get<Kept>(key(id)))?.value;

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
    // The engine deletes the grant as well, and refuses whatever was issued under a grant that is gone.
    async revokeByGrantId() {},
    // Only the device flow asks, and that is off.
    async findByUserCode() {
      return undefined;
    },
  };
}

/** Marks a record as used. Of several callers exactly one succeeds, the others get `invalid_grant` (RFC 6749 section 4.1.2). */
async function consumeOnce(store: Store, key: string, consumed: number): Promise<void> {
  const consumedBy = randomUUID();
  const after = await store.update<Kept>(key, (current) => {
    if (!current || current.consumed) return KEEP;
    return {
      value: { ...current, consumed, consumedBy },
      ttl: (current.exp ?? consumed) - consumed,
    };
  });
  if (after?.value.consumedBy !== consumedBy) throw new errors.InvalidGrant('already consumed');
}
