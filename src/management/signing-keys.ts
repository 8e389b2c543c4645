// The signing keys as administrators manage them: what is published now, and rotation.
import { recordAudit } from '../audit/audit.ts';
import { HttpError } from '../http/errors.ts';
import {
  openSigningKeys,
  publishedKeys,
  RotationPending,
  rotateSigningKeys,
  type SigningKey,
} from '../keys/signing-keys.ts';
import {
  isoTime,
  type Page,
  signingKeyResource,
  type SigningKeyResource,
  signingKeyPage,
} from './api/resources.ts';
import { rotationBody } from './api/requests.ts';
import { route } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export const signingKeyRoutes = [
  route({
    method: 'get',
    path: '/keys',
    name: 'listKeys',
    summary: 'Lists the published signing keys, the newest first.',
    answer: signingKeyPage,
    handle: (services) => showKeys(services),
  }),
  route({
    method: 'post',
    path: '/keys/rotate',
    name: 'rotateKeys',
    summary: 'Lets a new signing key take over; at once ends every access token.',
    body: () => rotationBody,
    isBodyOptional: true,
    status: 201,
    answer: signingKeyPage,
    refusals: { 409: 'a new key is on its way already' },
    handle: (services, { body }) => rotateKeys(services, body),
  }),
];

export async function showKeys({
  store,
  now,
}: ManagementServices): Promise<Page<SigningKeyResource>> {
  return keyPage(await openSigningKeys(store, now()), now());
}

async function rotateKeys(
  { store, accessTokenLifetime, by, now }: ManagementServices,
  { atOnce = false }: { atOnce?: boolean | undefined },
): Promise<Page<SigningKeyResource>> {
  const rotation = { accessTokenLifetime, atOnce };
  const keys = await rotateSigningKeys(store, rotation, now()).catch(refusePending);
  const reason = atOnce ? { reason: 'at_once' } : {};
  await recordAudit(store, { event: 'signing_key_rotated', by, outcome: 'done', ...reason }, now());
  return keyPage(keys, now());
}

function keyPage(keys: readonly SigningKey[], now: number): Page<SigningKeyResource> {
  return { items: publishedKeys(keys, now).map(signingKeyResource) };
}

function refusePending(error: unknown): never {
  if (!(error instanceof RotationPending)) throw error;
  const when = isoTime(error.signsFrom);
  const description = `a new key is published and signs from ${when}: rotate again after that, or at once (atOnce, --at-once) when a key leaked`;
  throw new HttpError(409, 'rotation_pending', description, { cause: error });
}
