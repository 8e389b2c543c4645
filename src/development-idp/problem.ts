// How the development identity provider says no: a page for people, JSON for clients.
import type Koa from 'koa';
import {
  asHttpError,
  type HttpError,
  type RespondToError,
  respondWithJson,
} from '../http/errors.ts';
import type { Pages } from '../pages/pages.ts';
import { requestContext } from '../http/request-context.ts';

/** The engine's `renderError`: what it refuses is about the sign-in; what fails behind it is not. */
export function renderEngineError(pages: Pages) {
  return async (
    ctx: Koa.Context,
    out: { error: string; error_description?: string },
    cause: Error,
  ) => {
    if (ctx.status < 500)
      return renderProblem(pages, ctx, ctx.status, out.error_description ?? out.error);
    await renderPlainly(pages, ctx, asHttpError(cause));
  };
}

function renderProblem(pages: Pages, ctx: Koa.Context, status: number, detail: string) {
  const reference = requestContext(ctx).requestId;
  const values = { about: 'development_sign_in', detail, reference };
  return pages.render(ctx, 'error', values, status);
}

/** What is not about a sign-in: a fault that passes, or an address that nothing has. */
function renderPlainly(pages: Pages, ctx: Koa.Context, { about, headers, status }: HttpError) {
  ctx.set(headers);
  const reference = requestContext(ctx).requestId;
  return pages.render(ctx, 'error', { about, reference }, status);
}

export function respondToProblem(pages: Pages): RespondToError {
  return async function problem(ctx, error) {
    if (ctx.accepts('json', 'html') !== 'html') return respondWithJson(ctx, error);
    if (error.status >= 500 || error.status === 404) return renderPlainly(pages, ctx, error);
    ctx.set(error.headers);
    await renderProblem(pages, ctx, error.status, error.message);
  };
}
