// Notes how far apps and people get when they connect, from requests and responses.
import type Koa from 'koa';
import type { AttemptRecorder } from '../connections/attempt-recorder.ts';
import {
  type AttemptNote,
  type AttemptReason,
  type AttemptStep,
  registrationName,
} from '../connections/attempts.ts';
import { asHttpError, failureOf } from '../http/errors.ts';
import { requestContext, type RequestContext } from '../http/request-context.ts';
import { engineRequest } from './engine/engine-request.ts';
import { DEVICE_PATH, ENDPOINTS } from './metadata.ts';

type Failure = NonNullable<RequestContext['failure']>;

/** Notes after the response is known, also for an error that a later step reports. */
export function recordAttempts(attempts: AttemptRecorder): Koa.Middleware {
  return async function attemptsRecorded(ctx, next) {
    try {
      await next();
    } catch (error) {
      note(attempts, ctx, failureOf(asHttpError(error)));
      throw error;
    }
    note(attempts, ctx, ctx.status >= 400 ? requestContext(ctx).failure : undefined);
  };
}

function note(attempts: AttemptRecorder, ctx: Koa.Context, failure: Failure | undefined): void {
  const { path } = ctx;
  if (path === ENDPOINTS.registration) noteRegistration(attempts, ctx, failure);
  else if (path === ENDPOINTS.token) noteTokenRequest(attempts, ctx, failure);
  else if (AUTHORIZATION_PATH.test(path)) noteAuthorization(attempts, ctx, failure);
}

const AUTHORIZATION_PATH = new RegExp(
  `^(${ENDPOINTS.authorization}|/interaction|${DEVICE_PATH})(/|$)`,
);

function noteRegistration(
  attempts: AttemptRecorder,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  const { requestId, address } = requestContext(ctx);
  const step = 'registered';
  if (ctx.status === 201) {
    const { client_id: client, client_name: clientName } = ctx.body as Record<string, string>;
    const names = [registrationName(String(client))];
    attempts.note({ id: requestId, names }, { step, client, clientName, address });
  } else if (failure)
    attempts.note(
      { id: requestId, names: [requestId] },
      { step, address, reference: requestId, ...failed(ctx, failure) },
    );
}

/** Of a code only: a refused refresh is in the record of its connection. */
function noteTokenRequest(
  attempts: AttemptRecorder,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  if (!failure) return;
  const { grant, grantType } = engineRequest(ctx);
  if (grant && grantType === 'authorization_code')
    attempts.note({ grant: grant.id }, { step: 'code', end: 'failed', reason: failure.code });
}

function noteAuthorization(
  attempts: AttemptRecorder,
  ctx: Koa.Context,
  failure: Failure | undefined,
): void {
  const { requestId, address } = requestContext(ctx);
  const { id, ...known } = engineRequest(ctx).attempt ?? {};
  if (id === undefined && !failure && known.end === undefined) return;
  const isPage = ctx.status >= 400 || failure !== undefined;
  const grant = known.grantId === undefined ? [] : [known.grantId];
  const client = ctx.query.client_id;
  attempts.note(
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
