// Forms of the console: from our own pages only, and sent once.
import type Koa from 'koa';
import { readForm } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import type { Store } from '../../store/store.ts';
import { requireFormToken, secret, type Session } from './sessions.ts';

export type Form = Record<string, string>;

const ONCE_KEPT = 8 * 3600;
const ONCE = /^[\w-]{43}$/;

/** The host refuses other origins already; older browsers say it in `Sec-Fetch-Site` only, or not at all, and then the token decides. */
export async function requireForm(ctx: Koa.Context, session: Session): Promise<Form> {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '' && site !== 'same-origin')
    throw new HttpError(403, 'forbidden', 'the form was sent from another site');
  const form = await readForm(ctx);
  requireFormToken(session, form.token);
  return form;
}

/** A value for the field `once` of a form that makes something. */
export function createOnce(): string {
  return secret();
}

/** Whether the form that makes something was not sent before: a second click makes nothing. */
export async function isFirst(store: Store, { once = '' }: Form): Promise<boolean> {
  if (!ONCE.test(once)) throw new HttpError(400, 'invalid_request', 'the form is incomplete');
  return store.add(`console-form:${once}`, true, ONCE_KEPT);
}

/** `entered` as an answer to one of the questions, or undefined when it was left out. */
export function entered(form: Form, name: string): string | undefined {
  const text = form[name]?.trim();
  return text === '' ? undefined : text;
}
