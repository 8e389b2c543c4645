// Error responses of the authorization server.
import type Koa from 'koa';
import { type HttpError, respondWithJson } from '../http/errors.ts';
import { prefersPage } from '../http/prefers-page.ts';
import type { Pages } from '../pages/pages.ts';
import { sendErrorPage } from '../pages/error-page.ts';

/** Renders a page on paths for people, and JSON on OAuth endpoints regardless of `Accept`. */
export function respondToError(
  pages: Pages,
): (ctx: Koa.Context, error: HttpError) => Promise<void> {
  return async (ctx, error) => {
    if (!isForPeople(ctx)) return respondWithJson(ctx, error);
    ctx.set(error.headers);
    const { about, message: description, status } = error;
    const start = isAccountPath(ctx.path) ? 'account' : undefined;
    await sendErrorPage(pages, ctx, { about, description, status, start });
  };
}

function isAccountPath(path: string): boolean {
  return /^\/account(\/|$)/.test(path);
}

function isForPeople(ctx: Koa.Context): boolean {
  if (isAccountPath(ctx.path)) return true;
  if (/^\/interaction(\/|$)|^\/oauth\/authorize(\/|$)/.test(ctx.path)) return true;
  return !/^\/oauth(\/|$)/.test(ctx.path) && prefersPage(ctx);
}
