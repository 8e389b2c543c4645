// Errors at the authorization endpoint: a page as long as the person has done nothing, so that we redirect nobody for a stranger (RFC 9700 section 4.11.2).
import type Koa from 'koa';
import type { ErrorOut, KoaContextWithOIDC } from 'oidc-provider';
import { RETRY_AFTER_SECONDS } from '../../http/errors.ts';
import type { Pages } from '../../pages/pages.ts';
import { type Refusal, renderRefusal } from '../../pages/refusal-page.ts';
import { redirectDestination } from './redirect-uris.ts';
import { NO_RESOURCE } from './resource-indicators.ts';
import { requestContext } from '../../http/request-context.ts';

/** The engine's `renderError`: errors it will not redirect with. */
export function renderErrorPage(pages: Pages) {
  return async (ctx: Koa.Context, out: ErrorOut, error: Error): Promise<void> => {
    const code =
      ctx.status >= 500 && out.error !== 'temporarily_unavailable' ? 'server_error' : out.error;
    const { error_description: cause } = (error.cause ?? {}) as { error_description?: string };
    const description = cause ?? out.error_description;
    const refusal: Refusal = { about: aboutOf(code, out.error_description), status: ctx.status };
    if (description) refusal.description = description;
    if (ctx.status === 503) ctx.set('Retry-After', RETRY_AFTER_SECONDS);
    requestContext(ctx).errorPage = refusal.about;
    speakAsAsked(ctx as KoaContextWithOIDC);
    await renderRefusal(pages, ctx, refusal);
  };
}

/** The query of the request that started the flow is not there any more when it is resumed. */
function speakAsAsked(ctx: KoaContextWithOIDC): void {
  requestContext(ctx).uiLocales ??= ctx.oidc?.params?.ui_locales;
}

/** The engine has one code for several things that a person needs different words for. */
function aboutOf(code: string, description = ''): string {
  if (code === 'invalid_request' && /session|expired|interaction/i.test(description))
    return 'expired';
  if (description === NO_RESOURCE) return 'no_resource';
  if (/^request(_uri)?_not_supported$/.test(code)) return 'unsupported';
  return description.startsWith('client_id metadata document') ? 'metadata_document' : code;
}

/**
 * Turns a redirect to the client into a page, for every client the operator did not register: the request came straight from the client, and
 * the person has not yet acted. The page offers the way back as a link.
 */
export function pageInsteadOfRedirect(
  pages: Pages,
  preRegistered: ReadonlySet<string>,
): Koa.Middleware {
  return async function errorsAsPages(ctx, next) {
    await next();
    const location = ctx.response.get('Location');
    if (!location || location.startsWith('/') || preRegistered.has(String(ctx.query.client_id)))
      return;
    const answer = answerIn(location);
    ctx.remove('Location');
    await renderRefusal(pages, ctx, {
      about: aboutOf(answer.get('error') ?? 'server_error', answer.get('error_description') ?? ''),
      description: answer.get('error_description') ?? 'the request was refused',
      status: 400,
      returnTo: { href: location, host: redirectDestination(location) },
    });
  };
}

/** In the query or, for response types we do not have, in the fragment. */
function answerIn(location: string): URLSearchParams {
  const { searchParams, hash } = new URL(location);
  return searchParams.has('error') ? searchParams : new URLSearchParams(hash.slice(1));
}

/** The engine never answers a resumed flow with a page of its own, except to end another person's session by a script, which does not run. */
export function pageInsteadOfScript(pages: Pages): Koa.Middleware {
  return async function scriptsAsPages(ctx, next) {
    await next();
    if (ctx.status === 200) await renderRefusal(pages, ctx, { about: 'expired', status: 400 });
  };
}
