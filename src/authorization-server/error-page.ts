// What a person reads when something went wrong: a page about it where people are, JSON everywhere else.
import type Koa from 'koa';
import { type HttpError, respondWithJson } from '../http/errors.ts';
import type { Pages } from '../http/pages.ts';

/** `about` is an error code or a nearer name: the key below `errors` in the message files. */
export type Refusal = {
  about: string;
  description?: string;
  status: number;
  returnTo?: { href: string; host: string };
};

/** The reference is the id of the request's log line. What there are no words for is about the app's request, with the description for its maker. */
export async function renderRefusal(
  pages: Pages,
  ctx: Koa.Context,
  { about, description, status, returnTo }: Refusal,
): Promise<void> {
  const isKnown = pages.knows(about);
  await pages.render(
    ctx,
    'error',
    {
      about: isKnown ? about : 'other',
      reference: String(ctx.state.requestId),
      ...(isKnown || description === undefined ? {} : { detail: description }),
      ...(returnTo ? { returnTo } : {}),
    },
    status,
  );
}

/** People get a page where people are; everything else gets JSON, whatever it says it accepts. */
export function respondToError(
  pages: Pages,
): (ctx: Koa.Context, error: HttpError) => Promise<void> {
  return async (ctx, error) => {
    if (!isForPeople(ctx)) return respondWithJson(ctx, error);
    ctx.set(error.headers);
    const { about, message: description, status } = error;
    await renderRefusal(pages, ctx, { about, description, status });
  };
}

function isForPeople(ctx: Koa.Context): boolean {
  if (/^\/(interaction|account)(\/|$)|^\/oauth\/authorize(\/|$)/.test(ctx.path)) return true;
  return !/^\/(oauth|\.well-known)(\/|$)/.test(ctx.path) && ctx.accepts('json', 'html') === 'html';
}
