import { recordAudit } from '../audit/audit.ts';
import { HttpError } from '../http/errors.ts';
import {
  loadSigningKeys,
  publishedKeys,
  RotationPending,
  rotateSigningKeys,
  type SigningKey,
} from '../keys/signing-keys.ts';
import type { Page, SigningKeyResource } from './api/resources.ts';
import { isoTime, signingKeyResource } from './representations.ts';
import type { ManagementContext } from './context.ts';

export async function listKeys({
  services: { store, now },
}: ManagementContext): Promise<Page<SigningKeyResource>> {
  return keyPage(await loadSigningKeys(store, now()), now());
}

export async function rotateKeys(
  { settings, services, by }: ManagementContext,
  { atOnce = false }: { atOnce?: boolean | undefined },
): Promise<Page<SigningKeyResource>> {
  const { store, now } = services;
  const rotation = { accessTokenLifetime: settings.lifetimes.accessToken, atOnce };
  const keys = await rotateSigningKeys(store, rotation, now()).catch(throwConflict);
  const reason = atOnce ? { reason: 'at_once' } : {};
  await recordAudit(services, { event: 'signing_key_rotated', by, outcome: 'done', ...reason });
  return keyPage(keys, now());
}

function keyPage(keys: readonly SigningKey[], now: number): Page<SigningKeyResource> {
  return { items: publishedKeys(keys, now).map(signingKeyResource) };
}

function throwConflict(error: unknown): never {
  if (!(error instanceof RotationPending)) throw error;
  const signsFrom = isoTime(error.signsFrom);
  const description = `a new key is already published and will sign from ${signsFrom}: rotate again after that or, if a key leaked, immediately (atOnce, --at-once)`;
  throw new HttpError(409, 'rotation_pending', description, { cause: error });
}
