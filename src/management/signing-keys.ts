import { recordChange } from '../audit/recorded-change.ts';
import { HttpError } from '../http/errors.ts';
import {
  loadSigningKeys,
  publishedKeys,
  RotationPending,
  rotateSigningKeys,
  type SigningKey,
} from '../keys/signing-keys.ts';
import type { Handlers } from './context.ts';
import { isoTime, represent } from './represent.ts';
import { type keyOperations, keySchema, rewrapSchema } from './resources/key.ts';
import { RewrapRefused } from '../store/rewrap.ts';

export const keyHandlers: Handlers<keyof typeof keyOperations> = {
  async listKeys({ services: { store, now } }) {
    return keyPage(await loadSigningKeys(store, now()), now());
  },

  async rotateKeys({ settings, services, by }, { body: { atOnce = false } }) {
    const { store, now } = services;
    const rotation = { accessTokenLifetime: settings.lifetimes.accessToken, atOnce };
    const reason = atOnce ? { reason: 'at_once' } : {};
    const item = { event: 'signing_key_rotated', by, ...reason };
    const keys = await recordChange(services, item, {
      make: () => rotateSigningKeys(store, rotation, now()).catch(throwConflict),
      itemOf: () => item,
    });
    return keyPage(keys, now());
  },

  async rewrapKeys({ services, by }, { body: { newDataKeys = false } }) {
    const reason = newDataKeys ? { reason: 'new_data_keys' } : {};
    const rewrap = () =>
      services.store.rewrap.run({ newDataKeys, waitMs: REWRAP_WAIT_MS }).catch((error: unknown) => {
        if (!(error instanceof RewrapRefused)) throw error;
        throw new HttpError(409, 'earlier_root_secret', error.message, { cause: error });
      });
    const item = { event: 'keys_rewrapped', by, ...reason };
    const progress = await recordChange(services, item, {
      make: rewrap,
      itemOf: ({ remaining }) => (newDataKeys || remaining === 0 ? item : undefined),
    });
    return represent(rewrapSchema, progress);
  },
};

const REWRAP_WAIT_MS = 10_000;

function keyPage(keys: readonly SigningKey[], now: number) {
  const published = publishedKeys(keys, now);
  return { items: published.map((key) => represent(keySchema, { ...key, id: key.jwk.kid })) };
}

function throwConflict(error: unknown): never {
  if (!(error instanceof RotationPending)) throw error;
  const signsFrom = isoTime(error.signsFrom);
  const description = `a new key is already published and will sign from ${signsFrom}: rotate again after that or, if a key leaked, immediately (atOnce, --at-once)`;
  throw new HttpError(409, 'rotation_pending', description, { cause: error });
}
