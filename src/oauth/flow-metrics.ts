// Counts the steps of an authorization by outcome, derived from request and response.
import type Koa from 'koa';
import type { FlowOutcome, FlowStep } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { whenClosed } from '../http/request-context.ts';
import { DEVICE_PATH, ENDPOINTS } from './metadata.ts';
import { engineRequest } from './engine/engine-request.ts';

/** Records when the response is finished. Ignores other paths. */
export function recordFlowMetrics(metrics: Metrics): Koa.Middleware {
  return function flowMetricsRecorded(ctx, next) {
    if (/^\/(oauth|interaction|device)\//.test(ctx.path))
      whenClosed(ctx, () => record(metrics, ctx));
    return next();
  };
}

function record(metrics: Metrics, ctx: Koa.Context): void {
  const step = stepOf(ctx);
  if (!step) return;
  metrics.flow(step, outcomeOf(ctx));
  if (ctx.path === ENDPOINTS.token && ctx.status === 200)
    metrics.token(String(engineRequest(ctx).grantType));
}

/** Returns undefined for redirects between two steps. */
function stepOf(ctx: Koa.Context): FlowStep | undefined {
  const { method, path, status, response } = ctx;
  if (method === 'POST')
    return POSTED[path] ?? (path === ENDPOINTS.token ? tokenStep(ctx) : undefined);
  if (method !== 'GET') return undefined;
  if (path === ENDPOINTS.authorization) return 'authorize';
  if (/^\/interaction\/[^/]+\/callback(\/[^/]+)?$/.test(path)) return 'sign-in';
  // The redirect to the identity provider failed.
  if (status >= 500 && path.startsWith('/interaction/')) return 'sign-in';
  if (path.startsWith(`${DEVICE_PATH}/`) && engineRequest(ctx).deviceOutcome) return 'consent';
  const isDecided = status >= 400 || responseIn(response.get('Location')) !== undefined;
  return isDecided && path.startsWith(`${ENDPOINTS.authorization}/`) ? 'consent' : undefined;
}

const POSTED: Record<string, FlowStep> = {
  [ENDPOINTS.registration]: 'register',
  [ENDPOINTS.revocation]: 'revoke',
  [ENDPOINTS.deviceAuthorization]: 'device',
};

function tokenStep(ctx: Koa.Context): FlowStep {
  return engineRequest(ctx).grantType === 'refresh_token' ? 'refresh' : 'exchange';
}

function outcomeOf(ctx: Koa.Context): FlowOutcome {
  const { status, response } = ctx;
  if (status >= 500) return 'failed';
  if (status === 429) return 'limited';
  if (status >= 400) return 'refused';
  const result = responseIn(response.get('Location'));
  if (engineRequest(ctx).deviceOutcome === 'denied') return 'denied';
  if (result === 'access_denied') return 'denied';
  return result === undefined || result === 'code' ? 'done' : 'refused';
}

/** Returns `code`, or the error, of a redirect to the client (RFC 6749 section 4.1.2). */
function responseIn(location: string): string | undefined {
  if (/[?&]code=/.test(location)) return 'code';
  return /[?&]error=([^&]*)/.exec(location)?.[1];
}
