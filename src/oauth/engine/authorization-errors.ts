// Error pages of the authorization endpoint. Before the person has acted, errors are never redirected (RFC 9700 section 4.11.2).
import type Koa from 'koa';
import type { ErrorOut, KoaContextWithOIDC } from 'oidc-provider';
import { LINK_MISTAKES } from '../../links/connect-link.ts';
import { removalsFor } from '../../links/app-instructions.ts';
import { RETRY_AFTER_SECONDS } from '../../http/errors.ts';
import type { Pages } from '../../pages/pages.ts';
import { type ErrorPage, sendErrorPage } from '../../pages/error-page.ts';
import type { Settings } from '../../settings/settings.ts';
import { engineRequest } from './engine-request.ts';
import { redirectDestination } from './redirect-uris.ts';
import { NO_RESOURCE } from './resource-indicators.ts';
import { requestContext } from '../../http/request-context.ts';

/** The engine's `renderError`, for errors that it does not redirect. */
export function renderErrorPage(pages: Pages, clients: Settings['clients']) {
  return async (ctx: Koa.Context, out: ErrorOut, error: Error): Promise<void> => {
    const code =
      ctx.status >= 500 && out.error !== 'temporarily_unavailable' ? 'server_error' : out.error;
    const { error_description: cause } = (error.cause ?? {}) as { error_description?: string };
    const description = cause ?? out.error_description;
    const isPublished = String(ctx.query.client_id).startsWith('https://');
    const about =
      code === 'invalid_redirect_uri' && isPublished
        ? 'redirect_not_published'
        : aboutOf(code, out.error_description);
    const page: ErrorPage = { about, status: ctx.status };
    if (code === 'server_error') page.start = 'account';
    if (about === 'invalid_client') page.removals = removalsFor(ctx.query.redirect_uri, clients);
    if (description) page.description = description;
    if (ctx.status === 503) ctx.set('Retry-After', RETRY_AFTER_SECONDS);
    engineRequest(ctx).errorPage = page.about;
    restoreLanguage(ctx as KoaContextWithOIDC);
    await sendErrorPage(pages, ctx, page);
  };
}

/** A resumed request has no `ui_locales` in its query, but the engine still has it. */
function restoreLanguage(ctx: KoaContextWithOIDC): void {
  requestContext(ctx).uiLocales ??= ctx.oidc?.params?.ui_locales;
}

const ENGINE_REFUSES_FRAGMENT = 'resource indicator must not contain a fragment component';

/** Distinguishes errors that have the same code but need different texts. */
function aboutOf(code: string, description = ''): string {
  if (code === 'invalid_request' && /session|expired|interaction/i.test(description))
    return 'expired';
  if (description === NO_RESOURCE) return 'no_resource';
  if (description === ENGINE_REFUSES_FRAGMENT) return 'link_has_more';
  const [mistake] = Object.entries(LINK_MISTAKES).find(([, text]) => text === description) ?? [];
  if (mistake !== undefined) return mistake;
  if (/^request(_uri)?_not_supported$/.test(code)) return 'unsupported';
  return description.startsWith('client_id metadata document') ? 'metadata_document' : code;
}

/**
 * Replaces an error redirect by a page with a link, except for pre-registered clients: anyone can register a client and send people to us, who
 * have not acted yet.
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
    const response = responseIn(location);
    ctx.remove('Location');
    await sendErrorPage(pages, ctx, {
      about: aboutOf(
        response.get('error') ?? 'server_error',
        response.get('error_description') ?? '',
      ),
      description: response.get('error_description') ?? 'the request was refused',
      status: 400,
      returnTo: { href: location, host: redirectDestination(location) },
    });
  };
}

/** In the query, or in the fragment for unsupported response types. */
function responseIn(location: string): URLSearchParams {
  const { searchParams, hash } = new URL(location);
  return searchParams.has('error') ? searchParams : new URLSearchParams(hash.slice(1));
}

/** The only page that the engine makes itself needs a script, to end the session of another person. Our security headers block it. */
export function pageInsteadOfScript(pages: Pages): Koa.Middleware {
  return async function scriptsAsPages(ctx, next) {
    await next();
    if (ctx.status === 200) await sendErrorPage(pages, ctx, { about: 'expired', status: 400 });
  };
}
