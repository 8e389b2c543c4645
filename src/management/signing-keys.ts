// The signing keys over the management API: what is published now, and rotation.
import type { Router } from '@koa/router';
import type Koa from 'koa';
import { recordAudit } from '../audit/audit.ts';
import { readJson } from '../http/body.ts';
import { HttpError } from '../http/errors.ts';
import {
  openSigningKeys,
  publishedKeys,
  RotationPending,
  rotateSigningKeys,
  type SigningKey,
} from '../keys/signing-keys.ts';
import type { Store } from '../store/store.ts';
import { isoTime, type Page, signingKeyDocument, type SigningKeyDocument } from './documents.ts';
import { parseInput, rotationBody } from './input.ts';

/** In seconds. */
export type SigningKeyOptions = {
  store: Store;
  accessTokenLifetime: number;
  now: () => number;
};

export function signingKeyRoutes(router: Router, options: SigningKeyOptions): void {
  const { store, accessTokenLifetime, now } = options;

  router.get('/keys', async function list(ctx) {
    ctx.body = keyPage(await openSigningKeys(store, now()), now());
  });

  router.post('/keys/rotate', async function rotate(ctx) {
    const { atOnce = false } = parseInput(rotationBody, hasBody(ctx) ? await readJson(ctx) : {});
    const rotation = { accessTokenLifetime, atOnce };
    const keys = await rotateSigningKeys(store, rotation, now()).catch(refusePending);
    const reason = atOnce ? { reason: 'at_once' } : {};
    await recordAudit(store, { event: 'signing_key_rotated', outcome: 'done', ...reason }, now());
    ctx.status = 201;
    ctx.body = keyPage(keys, now());
  });
}

function keyPage(keys: readonly SigningKey[], now: number): Page<SigningKeyDocument> {
  return { items: publishedKeys(keys, now).map(signingKeyDocument) };
}

function hasBody({ req, request }: Koa.Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (request.length ?? 0) > 0;
}

function refusePending(error: unknown): never {
  if (!(error instanceof RotationPending)) throw error;
  const when = isoTime(error.signsFrom);
  const description = `a new key is published and signs from ${when}: rotate again after that, or at once (atOnce, --at-once) when a key leaked`;
  throw new HttpError(409, 'rotation_pending', description, { cause: error });
}
