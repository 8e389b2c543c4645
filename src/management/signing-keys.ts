import { recordAudit } from '../audit/audit.ts';
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
import { type keyOperations, keySchema } from './resources/key.ts';

export const keyHandlers: Handlers<keyof typeof keyOperations> = {
  async listKeys({ services: { store, now } }) {
    return keyPage(await loadSigningKeys(store, now()), now());
  },

  async rotateKeys({ settings, services, by }, { body: { atOnce = false } }) {
    const { store, now } = services;
    const rotation = { accessTokenLifetime: settings.lifetimes.accessToken, atOnce };
    const keys = await rotateSigningKeys(store, rotation, now()).catch(throwConflict);
    const reason = atOnce ? { reason: 'at_once' } : {};
    await recordAudit(services, { event: 'signing_key_rotated', by, outcome: 'done', ...reason });
    return keyPage(keys, now());
  },
};

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
