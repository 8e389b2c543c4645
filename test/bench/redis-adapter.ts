// The common Redis adapter of oidc-provider: a key for each model, with lists and pointers written together (MULTI).
import { Redis } from 'ioredis';
import type { Adapter, AdapterPayload } from 'oidc-provider';

/** Consumable models: a hash with the time of consumption beside the payload. */
const CONSUMABLE = new Set(['AuthorizationCode', 'RefreshToken', 'DeviceCode']);
/** Models that end with their grant, which has a list of them. */
const OF_A_GRANT = new Set([...CONSUMABLE, 'AccessToken']);

const grantKey = (id: string) => `oidc:grant:${id}`;
const userCodeKey = (code: string) => `oidc:userCode:${code}`;
const uidKey = (uid: string) => `oidc:uid:${uid}`;

export function redisAdapter(url: string): (model: string) => Adapter {
  const redis = new Redis(url);
  return (model) => adapterOf(redis, model);
}

function adapterOf(redis: Redis, model: string): Adapter {
  const keyOf = (id: string) => `oidc:${model}:${id}`;
  const isConsumable = CONSUMABLE.has(model);

  const find = async (id: string): Promise<AdapterPayload | undefined> => {
    if (!isConsumable) return parsed(await redis.get(keyOf(id)));
    const { payload, consumed } = await redis.hgetall(keyOf(id));
    const found = parsed(payload);
    return found && consumed !== undefined ? { ...found, consumed: Number(consumed) } : found;
  };
  const findThrough = async (pointer: string) => {
    const id = await redis.get(pointer);
    return id === null ? undefined : find(id);
  };
  return {
    find,
    findByUid: (uid) => findThrough(uidKey(uid)),
    findByUserCode: (code) => findThrough(userCodeKey(code)),
    async upsert(id, payload, seconds) {
      const { grantId, userCode, uid } = payload;
      const text = JSON.stringify(payload);
      const writes = redis.multi();
      const writeFor = (key: string, value: string) =>
        seconds ? writes.set(key, value, 'EX', seconds) : writes.set(key, value);
      if (isConsumable) writes.hset(keyOf(id), 'payload', text);
      else writes.set(keyOf(id), text);
      if (seconds) writes.expire(keyOf(id), seconds);
      if (OF_A_GRANT.has(model) && grantId) {
        writes.rpush(grantKey(grantId), keyOf(id));
        // The list must not expire before its members.
        const left = await redis.ttl(grantKey(grantId));
        if (seconds && seconds > left) writes.expire(grantKey(grantId), seconds);
      }
      if (userCode) writeFor(userCodeKey(userCode), id);
      if (uid) writeFor(uidKey(uid), id);
      await writes.exec();
    },
    async consume(id) {
      await redis.hset(keyOf(id), 'consumed', String(Math.floor(Date.now() / 1000)));
    },
    async destroy(id) {
      await redis.del(keyOf(id));
    },
    async revokeByGrantId(grantId) {
      const keys = await redis.lrange(grantKey(grantId), 0, -1);
      await redis.del(grantKey(grantId), ...keys);
    },
  };
}

function parsed(text: string | null | undefined): AdapterPayload | undefined {
  return text ? JSON.parse(text) : undefined;
}
