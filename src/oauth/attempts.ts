// Notes how far apps and people get when they connect, from requests and responses.
import { createHash } from 'node:crypto';
import type Koa from 'koa';
import { saveRefusedRegistration } from '../clients/refused-registrations.ts';
import {
  type AttemptNote,
  type AttemptReason,
  type AttemptStep,
  registrationName,
} from '../connections/attempts.ts';
import { asHttpError, failureOf } from '../http/errors.ts';
import { requestContext, type RequestContext } from '../http/request-context.ts';
import { appWithCallback } from '../settings/apps.ts';
import type { AccessRefusal } from '../observability/labels.ts';
import type { Services } from '../services.ts';
import { engineRequest } from './engine/engine-request.ts';
import { DEVICE_PATH, ENDPOINTS, JWT_BEARER } from './metadata.ts';

type NotingServices = Pick<Services, 'attempts' | 'store' | 'now' | 'logger'>;

type Failure = NonNullable<RequestContext['failure']>;

/** Notes after the response is known, also for an error that a later step reports. */
export function recordAttempts(services: NotingServices): Koa.Middleware {
  return async function attemptsRecorded(ctx, next) {
    try {
      await next();
    } catch (error) {
      note(services, ctx, failureOf(asHttpError(error)));
      throw error;
    }
    note(services, ctx, ctx.status >= 400 ? requestContext(ctx).failure : undefined);
  };
}

function note(services: NotingServices, ctx: Koa.Context, failure: Failure | undefined): void {
  const { path } = ctx;
  if (path === ENDPOINTS.registration) noteRegistration(services, ctx, failure);
  else if (path === ENDPOINTS.token) noteTokenRequest(services, ctx, failure);
  else if (AUTHORIZATION_PATH.test(path)) noteAuthorization(services, ctx, failure);
}

const AUTHORIZATION_PATH = new RegExp(
  `^(${ENDPOINTS.authorization}|/interaction|${DEVICE_PATH})(/|$)`,
);

function noteRegistration(
  services: NotingServices,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  const { requestId, address } = requestContext(ctx);
  const step = 'registered';
  if (ctx.status === 201) {
    const { client_id: client, client_name: clientName } = ctx.body as Record<string, string>;
    const names = [registrationName(String(client))];
    services.attempts.note({ id: requestId, names }, { step, client, clientName, address });
  } else if (failure) {
    noteRefused(services, ctx);
    services.attempts.note(
      { id: requestId, names: [requestId] },
      { step, address, reference: requestId, ...failed(ctx, failure) },
    );
  }
}

/** Not awaited: the response does not depend on it. */
function noteRefused({ store, now, logger }: NotingServices, ctx: Koa.Context): void {
  const { refusedRegistration } = engineRequest(ctx);
  if (!refusedRegistration) return;
  saveRefusedRegistration(store, refusedRegistration, now()).catch((error: unknown) =>
    logger.warn({ err: error }, 'a refused registration could not be listed'),
  );
}

/**
 * An assertion of a trusted issuer, with which an app connects a person without a page. Programs repeat what is refused: the tries of a day are one
 * attempt.
 */
function noteAssertion(
  { attempts, now }: NotingServices,
  ctx: Koa.Context,
  { id: _id, ...known }: NonNullable<ReturnType<typeof engineRequest>['attempt']>,
  failure: Failure | undefined,
): void {
  const { client, account, connector, grantId } = known;
  if (!failure && grantId === undefined) return;
  const { requestId, address } = requestContext(ctx);
  const day = new Date(now() * 1000).toISOString().slice(0, 10);
  const parties = ['assertion', day, client, account, connector].join('\n');
  const id = createHash('sha256').update(parties).digest('base64url');
  if (!failure)
    return attempts.note({ id, names: [String(grantId)] }, { step: 'token', address, ...known });
  const refusal = failure.detail === undefined ? undefined : ASSERTION_REFUSALS[failure.detail];
  const end = refusal
    ? ({ end: 'refused', reason: refusal } as const)
    : ({ end: 'failed', reason: failure.detail ?? failure.code } as const);
  const { grantId: _grantId, ...others } = known;
  attempts.note(
    { id, names: [requestId] },
    { step: 'authorize', address, reference: requestId, ...others, ...end },
  );
}

/** Errors about assertions that are refusals of the person or the app. */
const ASSERTION_REFUSALS: Readonly<Record<string, AccessRefusal>> = {
  account_disabled: 'account_disabled',
  client_blocked: 'client_blocked',
  client_revoked: 'client_blocked',
  connector_ended: 'connector_revoked',
  connector_paused: 'connector_paused',
  kept_out: 'kept_out',
  not_entitled: 'no_rule',
  used_up: 'used_up',
};

/** Of a code only: a refused refresh is in the record of its connection. */
function noteTokenRequest(
  services: NotingServices,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  const { grant, grantType, unknownClient, attempt } = engineRequest(ctx);
  if (grantType === JWT_BEARER && attempt) noteAssertion(services, ctx, attempt, failure);
  if (!failure) return;
  if (unknownClient !== undefined) noteUnknownClient(services, ctx, unknownClient);
  if (grant && grantType === 'authorization_code')
    services.attempts.note(
      { grant: grant.id },
      { step: 'code', end: 'failed', reason: failure.code },
    );
}

function noteAuthorization(
  services: NotingServices,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  const { requestId, address } = requestContext(ctx);
  const { id, ...known } = engineRequest(ctx).attempt ?? {};
  if (id === undefined && !failure && known.end === undefined) return;
  const client = ctx.query.client_id;
  const reason = failure && reasonOf(ctx, failure);
  if (reason === 'unknown_client' && typeof client === 'string')
    return noteUnknownClient(services, ctx, client);
  const isPage = ctx.status >= 400 || failure !== undefined;
  const grant = known.grantId === undefined ? [] : [known.grantId];
  services.attempts.note(
    { id: id ?? requestId, names: isPage ? [requestId, ...grant] : grant },
    {
      step: stepOf(ctx),
      address,
      ...(typeof client === 'string' && client !== '' ? { client } : {}),
      ...(isPage ? { reference: requestId } : {}),
      ...(failure ? failed(ctx, failure) : deniedIn(ctx)),
      ...known,
    },
  );
}

/** Apps repeat such an id for ever: all their tries are one attempt. */
function noteUnknownClient({ attempts }: NotingServices, ctx: Koa.Context, sent: string): void {
  const { requestId, address } = requestContext(ctx);
  const client = sent.slice(0, MAX_CLIENT_ID_LENGTH).toWellFormed();
  const id = createHash('sha256').update(`unknown client ${client}`).digest('base64url');
  const app = appWithCallback(String(ctx.query.redirect_uri));
  attempts.note(
    { id, names: [requestId] },
    {
      step: 'authorize',
      client,
      clientName: app?.name,
      address,
      reference: requestId,
      end: 'failed',
      reason: 'unknown_client',
      count: 1,
    },
  );
}

const MAX_CLIENT_ID_LENGTH = 500;

/** The step that a request reached, unless it says more itself. */
function stepOf(ctx: Koa.Context): AttemptStep {
  if (ctx.path.startsWith(`${ENDPOINTS.authorization}/`)) return 'consent';
  if (!ctx.path.startsWith('/interaction/')) return 'authorize';
  // A redirect to an identity provider, or its response.
  return 'provider';
}

function failed(ctx: Koa.Context, failure: Failure): Pick<AttemptNote, 'end' | 'reason' | 'code'> {
  return { end: 'failed', reason: reasonOf(ctx, failure), code: failure.remoteCode };
}

/** A reason of its own for what operators can do something about, otherwise the error code. */
function reasonOf(ctx: Koa.Context, { code, remoteCode }: Failure): AttemptReason | string {
  if (engineRequest(ctx).errorPage === 'metadata_document') return 'metadata_document';
  const isOfProvider = remoteCode !== undefined && ctx.path.startsWith('/interaction/');
  if (isOfProvider || code === 'sign_in_not_set_up') return 'provider_error';
  if (code === 'invalid_client') return 'unknown_client';
  return code === 'invalid_redirect_uri' ? 'redirect_refused' : code;
}

/** The error response to the app (RFC 6749 section 4.1.2.1). */
function deniedIn(ctx: Koa.Context): Pick<AttemptNote, 'end' | 'reason'> {
  const [, error] = /[?&]error=([\w-]+)/.exec(ctx.response.get('Location')) ?? [];
  if (error === undefined) return {};
  return error === 'access_denied'
    ? { end: 'denied', reason: error }
    : { end: 'failed', reason: error };
}
