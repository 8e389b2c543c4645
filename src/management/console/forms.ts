import type Koa from 'koa';
import { readForm } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import type { Store } from '../../store/store.ts';
import { randomToken, requireConsoleForm, type Session } from './sessions.ts';

export type Form = Record<string, string>;

const IDEMPOTENCY_KEY_SECONDS = 8 * 3600;
const IDEMPOTENCY_KEY = /^[\w-]{43}$/;

/**
 * Reads a form and rejects it if it was not sent from a page of this session. The host already rejects other origins; older browsers send
 * only `Sec-Fetch-Site` or nothing, so the form token decides.
 */
export async function requireForm(ctx: Koa.Context, session: Session): Promise<Form> {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '' && site !== 'same-origin')
    throw new HttpError(403, 'forbidden', 'the form was sent from another site');
  const form = await readForm(ctx);
  requireConsoleForm(session, form.token);
  return form;
}

/** Creates the hidden field that makes a form that creates something idempotent. */
export function createIdempotencyKey(): string {
  return randomToken();
}

/** Resolves to false if a form with the same key was sent before. */
export async function claimIdempotencyKey(
  store: Store,
  { idempotencyKey = '' }: Form,
): Promise<boolean> {
  if (!IDEMPOTENCY_KEY.test(idempotencyKey))
    throw new HttpError(400, 'invalid_request', 'the form is incomplete');
  return store.add(`console-form:${idempotencyKey}`, true, IDEMPOTENCY_KEY_SECONDS);
}

/** Returns a trimmed field, or undefined if it is empty. */
export function optionalValue(form: Form, name: string): string | undefined {
  const text = form[name]?.trim();
  return text === '' ? undefined : text;
}
