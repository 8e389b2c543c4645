// The endpoints that clients call: registration, token, revocation, introspection.
import type { Router } from '@koa/router';
import type Koa from 'koa';
import { type AuditServices, recordAudit } from '../audit/audit.ts';
import { DEVICE_CODE } from '../clients/clients.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { limitBody, readJson } from '../http/body.ts';
import { allowAnyOrigin } from '../http/cors.ts';
import { HttpError, RETRY_AFTER_SECONDS, tooManyRequests } from '../http/errors.ts';
import { limitRate, type RateLimit, type RateLimits, withinLimit } from '../http/rate-limits.ts';
import { isLoopback } from '../settings/addresses.ts';
import { highestLevelIn, type Levels, OFFLINE_ACCESS } from '../permission-levels.ts';
import { engineRequest } from './engine/engine-request.ts';
import { connectorIdOf } from '../links/connect-link.ts';
import { workloadSubject } from '../settings/workloads.ts';
import { POLL_INTERVAL_SECONDS } from './engine/device-codes.ts';
import { readRulesAhead, registrationResponse } from './engine/registration.ts';
import { redirectDestination } from './engine/redirect-uris.ts';
import type { Store } from '../store/store.ts';
import { ENDPOINTS } from './metadata.ts';
import { requestContext } from '../http/request-context.ts';

export type ClientEndpointOptions = {
  engine: Koa.Middleware;
  introspects: boolean;
  /** Without it, clients cannot register themselves. */
  registers: boolean;
  /** Where people enter the code of a device. Undefined without the device grant. */
  deviceUrl: string | undefined;
  levels: Levels;
  rateLimits: RateLimits;
  audit: AuditServices;
  resourceUrl: string;
};

const MAX_TOKEN_REQUEST_BYTES = 16 * 1024;
const MAX_REGISTRATION_BYTES = 64 * 1024;
/** The engine's own body limit. */
const MAX_ENGINE_BODY_BYTES = 56 * 1024;

/** Responds with JSON regardless of `Accept`, never cached, with CORS for clients in a browser. */
export function clientEndpoints(
  router: Router,
  {
    engine,
    introspects,
    registers,
    deviceUrl,
    levels,
    rateLimits,
    audit,
    resourceUrl,
  }: ClientEndpointOptions,
): void {
  const limitTokens = limitInvalidTokens(rateLimits.wrongTokens);
  const readForm = [requireContentType(FORM), limitBody(MAX_TOKEN_REQUEST_BYTES)] as const;
  const endpoints: (readonly [path: string, ...steps: Koa.Middleware[]])[] = [
    [
      ENDPOINTS.token,
      ...readForm,
      limitTokens,
      recordWorkloadRefusal(audit, { rateLimits, resourceUrl }),
      formatTokenResponse(levels),
    ],
    [
      ENDPOINTS.registration,
      ...(registers ? [] : [refuseRegistration]),
      requireContentType('application/json'),
      limitRegistrations(rateLimits, audit.store),
      limitBody(MAX_REGISTRATION_BYTES),
      parseLargeBody,
      formatRegistrationResponse,
      recordRegistration(audit, rateLimits),
    ],
    [ENDPOINTS.revocation, ...readForm, limitTokens],
    ...(introspects ? [[ENDPOINTS.introspection, ...readForm, limitTokens] as const] : []),
    ...(deviceUrl === undefined
      ? []
      : [
          [
            ENDPOINTS.deviceAuthorization,
            ...readForm,
            limitRate(rateLimits.deviceAuthorizations),
            limitTokens,
            formatDeviceResponse(deviceUrl),
          ] as const,
        ]),
  ];
  for (const [path, ...steps] of endpoints) {
    router.options(path, allowAnyOrigin('POST'));
    router.post(path, allowAnyOrigin('POST'), jsonOnly, ...steps, engine);
  }
}

const FORM = 'application/x-www-form-urlencoded';

/** The engine reads a body without a type as an empty one. */
function requireContentType(type: string): Koa.Middleware {
  return function contentTypeRequired(ctx, next) {
    const hasBody =
      (ctx.request.length ?? 0) > 0 || ctx.req.headers['transfer-encoding'] !== undefined;
    if (hasBody && ctx.get('Content-Type') === '')
      throw new HttpError(400, 'invalid_request', `the request has no Content-Type: send ${type}`);
    return next();
  };
}

const refuseRegistration: Koa.Middleware = () => {
  const message =
    'dynamic client registration is disabled: ask the operator of this server to add the client to its settings';
  throw new HttpError(403, 'access_denied', message);
};

/**
 * Web pages may register, because some clients are web pages. Their registrations have a separate limit, so that a page cannot use up the
 * limit of programs at its visitors' addresses. Requests without a preflight (Fetch section 3.2) are not counted, because the engine rejects
 * them.
 */
function limitRegistrations(
  { registrations, pageRegistrations }: RateLimits,
  store: Store,
): Koa.Middleware {
  return async function registrationsLimited(ctx, next) {
    if (ctx.is('application/json')) {
      const limit = isFromPage(ctx) ? pageRegistrations : registrations;
      await withinLimit(limit, ctx, async () => readRulesAhead(store, engineRequest(ctx)));
    }
    return next();
  };
}

/** Browsers send `Origin` with every POST of a page. Pages on this computer count as programs. */
function isFromPage(ctx: Koa.Context): boolean {
  const { origin } = ctx.req.headers;
  if (origin === undefined) return false;
  const url = URL.parse(origin);
  return url === null || !isLoopback(url.hostname);
}

/**
 * Responds with 429 after too many invalid codes, tokens and clients from one address. Valid requests are never limited, because many people
 * may share the address.
 */
function limitInvalidTokens(limit: RateLimit): Koa.Middleware {
  return async function invalidTokensLimited(ctx, next) {
    await next();
    const { error } = (ctx.body ?? {}) as { error?: unknown };
    if (error !== 'invalid_grant' && error !== 'invalid_client') return;
    const { address, clientId } = requestContext(ctx);
    const wait = await limit.consume(address, clientId);
    if (wait !== undefined) throw tooManyRequests(wait);
  };
}

const jsonOnly: Koa.Middleware = async (ctx, next) => {
  ctx.req.headers.accept = 'application/json';
  await next();
  ctx.set('Cache-Control', 'no-store');
  if (ctx.status === 503 && !ctx.res.hasHeader('Retry-After'))
    ctx.set('Retry-After', RETRY_AFTER_SECONDS);
  improveDescription(ctx);
  nameGrantTypeRefusal(ctx.body);
  removeUnneededNonce(ctx);
};

/**
 * The engine sends a nonce with every response to a proof. A client would store it, send it with the next refresh an hour later, and be
 * rejected because it is old. So a nonce is sent only with `use_dpop_nonce` (RFC 9449 section 8).
 */
function removeUnneededNonce(ctx: Koa.Context): void {
  const { error } = (ctx.body ?? {}) as { error?: unknown };
  if (error !== 'use_dpop_nonce') ctx.remove('DPoP-Nonce');
}

/** Replacements for the engine's general descriptions: by the detail that it does not send, or for any other detail. */
const DESCRIPTIONS: Record<string, Record<string, string>> = {
  'grant request is invalid': {
    '': 'the code or refresh token is unknown, expired, used or revoked, or belongs to another client; connect again',
    'code_verifier must be provided':
      'code_verifier is missing: send the one that belongs to the code_challenge of the authorization request',
    'code_verifier does not match code_challenge':
      'code_verifier does not belong to the code_challenge of the authorization request; connect again',
    'authorization code redirect_uri mismatch':
      'redirect_uri is not the one of the authorization request; connect again',
  },
  'client authentication failed': {
    '': 'client authentication failed, or the client is no longer registered; register again',
    'signature verification failed':
      'the signature of the client assertion fits no key of this client: use the private key of a registered one',
    'the provided authentication mechanism does not match the registered client authentication method':
      'the client did not authenticate with the method that it is registered for (token_endpoint_auth_method)',
  },
  'invalid authorization header value format': {
    '': 'Authorization must be Basic with the client_id and client_secret (RFC 6749 section 2.3.1), or be left out',
  },
  'invalid DPoP key binding': {
    '': `the DPoP proof must be a JWT of type dpop+jwt, signed (${DPOP_ALGORITHMS.join(', ')}) with the key of the public jwk in its header`,
  },
};

function improveDescription(ctx: Koa.Context): void {
  const refusal = ctx.body as { error_description?: string } | undefined;
  const better = DESCRIPTIONS[refusal?.error_description ?? ''];
  if (!refusal || !better) return;
  const { detail = '' } = requestContext(ctx).failure ?? {};
  refusal.error_description = better[detail] ?? better[''] ?? '';
}

const GRANT_TYPE_REFUSALS = ['requested grant type', DEVICE_CODE].map(
  (what) => `${what} is not allowed for this client`,
);

/** The engine's error for a grant type that the client may not use is `invalid_request`. RFC 6749 section 5.2 has its own. */
function nameGrantTypeRefusal(body: unknown): void {
  const refusal = body as { error?: string; error_description?: string } | undefined;
  if (refusal && GRANT_TYPE_REFUSALS.includes(refusal.error_description ?? ''))
    refusal.error = 'unauthorized_client';
}

/** The scope of a response (RFC 6749 section 5.1) is the one level, and `offline_access` if it was granted. */
function formatTokenResponse(levels: Levels): Koa.Middleware {
  return async function tokenResponseFormatted(ctx, next) {
    await next();
    const body = ctx.body as Record<string, unknown> | undefined;
    if (ctx.status !== 200 || typeof body?.scope !== 'string') return;
    const stays = body.scope.split(' ').includes(OFFLINE_ACCESS);
    ctx.body = {
      ...body,
      scope: [highestLevelIn(levels, body.scope), ...(stays ? [OFFLINE_ACCESS] : [])].join(' '),
    };
  };
}

/** RFC 8628 section 3.2. The engine knows our pages by the request's host, and sends no `interval`. */
function formatDeviceResponse(url: string): Koa.Middleware {
  return async function deviceResponseFormatted(ctx, next) {
    await next();
    if (ctx.status !== 200) return;
    const { device_code, user_code, expires_in } = ctx.body as Record<string, unknown>;
    ctx.body = {
      device_code,
      user_code,
      verification_uri: url,
      verification_uri_complete: `${url}?user_code=${String(user_code)}`,
      expires_in,
      interval: POLL_INTERVAL_SECONDS,
    };
  };
}

/** Parses bodies that exceed the engine's limit. Not others, because the engine warns on the console about parsed bodies. */
const parseLargeBody: Koa.Middleware = async (ctx, next) => {
  const isLarge = (ctx.request.length ?? Infinity) > MAX_ENGINE_BODY_BYTES;
  if (isLarge && ctx.is('application/json'))
    Object.assign(ctx.req, { body: await readJson(ctx, MAX_REGISTRATION_BYTES) });
  return next();
};

const formatRegistrationResponse: Koa.Middleware = async (ctx, next) => {
  await next();
  if (ctx.status === 201) ctx.body = registrationResponse(ctx.body as Record<string, unknown>);
};

/**
 * Records a stored client. Above the limit, which bounds the audit log, registrations are no longer recorded, and one item says so; clients that
 * wait and approvals always are recorded.
 */
function recordRegistration(
  services: AuditServices,
  { recordedRegistrations, registrationGaps }: RateLimits,
): Koa.Middleware {
  return async function registrationRecorded(ctx, next) {
    const { address } = requestContext(ctx);
    let counting: Promise<number | undefined> | undefined;
    engineRequest(ctx).onRegistered = () => {
      counting = recordedRegistrations.consume(address);
      // Its error reaches the `await` below.
      counting.catch(() => undefined);
    };
    await next();
    if (ctx.status !== 201) return;
    const isOver = (await counting) !== undefined;
    if (isOver && (await registrationGaps.consume(address)) !== undefined) return;
    const {
      client_id: clientId,
      client_name: client,
      redirect_uris: uris,
    } = ctx.body as Registered;
    const redirectHosts = [...new Set(uris.map(redirectDestination))];
    const item = { event: 'client_registered', clientId, arguments: { client, redirectHosts } };
    await recordAudit(services, { ...item, outcome: isOver ? 'done_unrecorded' : 'done' });
  };
}

/** Above the limit, which bounds the audit log, refusals are only in the log. */
function recordWorkloadRefusal(
  services: AuditServices,
  { rateLimits, resourceUrl }: Pick<ClientEndpointOptions, 'rateLimits' | 'resourceUrl'>,
): Koa.Middleware {
  return async function workloadRefusalRecorded(ctx, next) {
    await next();
    const { refusal } = engineRequest(ctx).workload ?? {};
    if (!refusal) return;
    const { address } = requestContext(ctx);
    if ((await rateLimits.recordedWorkloads.consume(address)) !== undefined) return;
    const { reason, issuerId, subject, details, resource = '' } = refusal;
    const { rules = [], unmatched = [] } = details;
    const connector = connectorIdOf(resourceUrl, resource);
    const [rule, ...others] = rules;
    const isOne = rule !== undefined && others.length === 0;
    await recordAudit(services, {
      event: 'workload_refused',
      ...(isOne ? { account: workloadSubject(issuerId, rule) } : {}),
      ...(connector === undefined ? {} : { connector }),
      arguments: { name: isOne ? `${issuerId}:${rule}` : issuerId, subject, rules, unmatched },
      outcome: 'refused',
      reason,
    });
  };
}

type Registered = { client_id: string; client_name: string; redirect_uris: string[] };
