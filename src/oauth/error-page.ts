// Error responses of the authorization server.
import type Koa from 'koa';
import { HttpError, respondWithJson } from '../http/errors.ts';
import { prefersPage } from '../http/prefers-page.ts';
import type { Pages } from '../pages/pages.ts';
import { type ErrorPage, sendErrorPage } from '../pages/error-page.ts';

/** The client waits for an administrator to allow it. */
export class ClientWaiting extends HttpError {
  readonly client: { id: string; name: string };

  constructor(id: string, name: string) {
    super(403, 'client_waiting', 'an administrator must allow this app first');
    this.client = { id, name };
  }
}

/** Renders a page on paths for people, and JSON on OAuth endpoints regardless of `Accept`. */
export function respondToError(
  pages: Pages,
): (ctx: Koa.Context, error: HttpError) => Promise<void> {
  return async (ctx, error) => {
    if (!isForPeople(ctx)) return respondWithJson(ctx, error);
    ctx.set(error.headers);
    if (error instanceof ClientWaiting) {
      const { id, name } = error.client;
      return pages.render(
        ctx,
        'waiting',
        { client: { id, name }, again: interactionPath(ctx) },
        403,
      );
    }
    const { about, message: description, status } = error;
    const start = isAccountPath(ctx.path) ? 'account' : STARTS[about];
    await sendErrorPage(pages, ctx, { about, description, status, start });
  };
}

/** Where to go after an error from which the app's request does not continue. */
const STARTS: Record<string, ErrorPage['start']> = {
  device_expired: 'device',
  server_error: 'account',
};

/** Where the sign-in of this interaction begins. */
function interactionPath(ctx: Koa.Context): string {
  return ctx.path.split('/').slice(0, 3).join('/');
}

function isAccountPath(path: string): boolean {
  return /^\/account(\/|$)/.test(path);
}

function isForPeople(ctx: Koa.Context): boolean {
  if (isAccountPath(ctx.path)) return true;
  if (/^\/(interaction|device)(\/|$)|^\/oauth\/authorize(\/|$)/.test(ctx.path)) return true;
  return !/^\/oauth(\/|$)/.test(ctx.path) && prefersPage(ctx);
}
