// The page that says what went wrong, what to do now, and what to tell support.
import type Koa from 'koa';
import type { Pages } from './pages.ts';
import { requestContext } from '../http/request-context.ts';

/** `about` is an error code or a nearer name: the key below `errors` in the message files. */
export type Refusal = {
  about: string;
  description?: string;
  status: number;
  returnTo?: { href: string; host: string };
  /** No app is waiting: what is not known is nothing for its maker. */
  start?: 'account' | 'console' | undefined;
};

/** The reference is the id of the request's log line. What there are no words for is about the app's request, with the description for its maker. */
export async function renderRefusal(
  pages: Pages,
  ctx: Koa.Context,
  { about, description, status, returnTo, start }: Refusal,
): Promise<void> {
  const isKnown = pages.knows(about);
  await pages.render(
    ctx,
    'error',
    {
      about: isKnown ? about : 'other',
      reference: requestContext(ctx).requestId,
      ...(isKnown || start || description === undefined ? {} : { detail: description }),
      ...(start ? { start } : {}),
      ...(returnTo ? { returnTo } : {}),
    },
    status,
  );
}
