import type Koa from 'koa';
import {
  asHttpError,
  type HttpError,
  type RespondToError,
  respondWithJson,
} from '../../http/errors.ts';
import { prefersPage } from '../../http/prefers-page.ts';
import { sendErrorPage } from '../../pages/error-page.ts';
import type { Pages } from '../../pages/pages.ts';
import { requestContext } from '../../http/request-context.ts';

/** Creates the engine's `renderError`. */
export function renderEngineError(pages: Pages) {
  return async (
    ctx: Koa.Context,
    out: { error: string; error_description?: string },
    cause: Error,
  ) => {
    if (ctx.status < 500)
      return renderSignInError(pages, ctx, ctx.status, out.error_description ?? out.error);
    await renderOtherError(pages, ctx, asHttpError(cause));
  };
}

function renderSignInError(pages: Pages, ctx: Koa.Context, status: number, detail: string) {
  const reference = requestContext(ctx).requestId;
  const values = { about: 'development_sign_in', detail, reference };
  return pages.render(ctx, 'error', values, status);
}

/** A failure of the server, or a page that does not exist. */
function renderOtherError(pages: Pages, ctx: Koa.Context, { about, headers, status }: HttpError) {
  ctx.set(headers);
  return sendErrorPage(pages, ctx, { about, status });
}

/** Renders a page for people, and JSON for clients. */
export function errorResponse(pages: Pages): RespondToError {
  return async function respond(ctx, error) {
    if (!prefersPage(ctx)) return respondWithJson(ctx, error);
    if (error.status >= 500 || error.status === 404 || error.status === 421)
      return renderOtherError(pages, ctx, error);
    ctx.set(error.headers);
    await renderSignInError(pages, ctx, error.status, error.message);
  };
}
