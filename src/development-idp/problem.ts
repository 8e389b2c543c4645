// How the development identity provider says no: a page for people, JSON for clients.
import type Koa from 'koa';
import { type RespondToError, respondWithJson } from '../http/errors.ts';
import type { Pages } from '../http/pages.ts';

export function renderProblem(pages: Pages, ctx: Koa.Context, status: number, detail: string) {
  const reference = String(ctx.state.requestId);
  const values = { about: 'development_sign_in', detail, reference };
  return pages.render(ctx, 'error', values, status);
}

export function respondToProblem(pages: Pages): RespondToError {
  return async function problem(ctx, error) {
    if (ctx.accepts('json', 'html') !== 'html') return respondWithJson(ctx, error);
    ctx.set(error.headers);
    await renderProblem(pages, ctx, error.status, error.message);
  };
}
