// Pages of the resource server for people, and its error responses: pages for people, JSON-RPC for clients.
import type Koa from 'koa';
import { installLinks, instructionsFor, removalsOfLink } from '../links/app-instructions.ts';
import { connectLink, LINK_MISTAKES, linkMistake } from '../links/connect-link.ts';
import type { AttemptNote } from '../connections/attempts.ts';
import type { Connector } from '../links/connector.ts';
import { HttpError, type RespondToError } from '../http/errors.ts';
import { securityHeaders } from '../http/host.ts';
import { prefersPage } from '../http/prefers-page.ts';
import { requestContext } from '../http/request-context.ts';
import { sendErrorPage } from '../pages/error-page.ts';
import type { Pages } from '../pages/pages.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { InBandError, respondInBand } from './in-band-error.ts';
import { respondWithJsonRpcError } from './json-rpc.ts';

const POLICY = 'Content-Security-Policy';

/** Whether the request shows a page to a person. MCP clients use other methods, prefer JSON or event streams, or send a token. */
export function isVisit(ctx: Koa.Context): boolean {
  const isRead = ctx.method === 'GET' || ctx.method === 'HEAD';
  return isRead && ctx.req.headers.authorization === undefined && prefersPage(ctx);
}

/**
 * Shows how to add the connect link to apps. `refusal` is the error for requests without a token; the response has its status and headers.
 * The page contains nothing that the link's metadata does not.
 */
export async function showConnectLink(
  pages: Pages,
  ctx: Koa.Context,
  { resourceUrl, clients, connector, isPaused, refusal }: ConnectLinkVisit,
): Promise<void> {
  const { id, name } = connector;
  const link = connectLink(resourceUrl, id);
  requestContext(ctx).failure = { code: refusal.code, detail: refusal.message };
  ctx.set(refusal.headers);
  // The script of our own origin adds buttons that copy.
  const { [POLICY]: policy } = securityHeaders(resourceUrl);
  ctx.set(POLICY, `${policy};script-src 'self'`);
  const values = {
    connector: { name, link },
    installs: installLinks(link, name, clients),
    instructions: instructionsFor(link, name, clients),
    removals: removalsOfLink(link, clients),
    isPaused,
  };
  await pages.render(ctx, 'connect-link', values, refusal.status);
}

type ConnectLinkVisit = Pick<Settings, 'resourceUrl' | 'clients'> & {
  connector: Connector;
  isPaused: boolean;
  refusal: HttpError;
};

/** Renders errors as pages for people, whose reference opens an attempt, and as JSON for clients. */
export function respondToError(
  { pages, attempts }: Pick<Services, 'pages' | 'attempts'>,
  maxBodyBytes: number,
): RespondToError {
  return async function resourceServerError(ctx, refusal) {
    if (refusal instanceof InBandError) return respondInBand(ctx, refusal, maxBodyBytes);
    const error = refusal.about === 'not_found' ? nothingAt(ctx.path, refusal) : refusal;
    if (!isVisit(ctx)) return respondWithJsonRpcError(ctx, error);
    const { about, message: description, status } = error;
    const { requestId, address } = requestContext(ctx);
    const [, connector] = LINK_PATH.exec(ctx.path) ?? [];
    attempts.note(
      { id: requestId, names: [requestId] },
      { step: 'authorize', reference: requestId, address, connector, ...endOfVisit(about) },
    );
    ctx.set(error.headers);
    await sendErrorPage(pages, ctx, { about, description, status });
  };
}

function endOfVisit(about: string): Pick<AttemptNote, 'end' | 'reason'> {
  if (about === 'link_revoked') return { end: 'refused', reason: 'connector_revoked' };
  if (about === 'link_expired') return { end: 'refused', reason: 'connector_expired' };
  return { end: 'failed', reason: about };
}

const LINK_PATH = /^\/connect\/([A-Za-z0-9]{22})\/mcp$/;

/** Says what to change in an address that is almost a connect link. */
function nothingAt(path: string, refusal: HttpError): HttpError {
  const mistake = /^\/(connect(\/|$)|$)/.test(path) ? linkMistake(path) : undefined;
  if (!mistake) return refusal;
  return new HttpError(refusal.status, refusal.code, LINK_MISTAKES[mistake], { about: mistake });
}
