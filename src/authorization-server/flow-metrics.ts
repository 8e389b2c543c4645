// Counts the steps of connecting, by outcome: from what was asked and how it was answered.
import type Koa from 'koa';
import type { FlowOutcome, FlowStep } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { ENDPOINTS } from './metadata.ts';
import { requestContext } from '../http/request-context.ts';

/** Looks at answers when they are over, and at paths of flows only. */
export function countFlows(metrics: Metrics): Koa.Middleware {
  return function flowsCounted(ctx, next) {
    if (/^\/(oauth|interaction)\//.test(ctx.path)) ctx.res.once('close', () => count(metrics, ctx));
    return next();
  };
}

function count(metrics: Metrics, ctx: Koa.Context): void {
  const step = stepOf(ctx);
  if (!step) return;
  metrics.flow(step, outcomeOf(ctx));
  if (ctx.path === ENDPOINTS.token && ctx.status === 200)
    metrics.token(String(requestContext(ctx).grantType));
}

/** Undefined for what is on the way from one step to another. */
function stepOf(ctx: Koa.Context): FlowStep | undefined {
  const { method, path, status, response } = ctx;
  if (method === 'POST')
    return POSTED[path] ?? (path === ENDPOINTS.token ? tokenStep(ctx) : undefined);
  if (method !== 'GET') return undefined;
  if (path === ENDPOINTS.authorization) return 'authorize';
  if (/^\/interaction\/[^/]+\/callback(\/[^/]+)?$/.test(path)) return 'sign-in';
  // The way to the identity provider, which may be away.
  if (status >= 500 && path.startsWith('/interaction/')) return 'sign-in';
  const isDecided = status >= 400 || answerIn(response.get('Location')) !== undefined;
  return isDecided && path.startsWith(`${ENDPOINTS.authorization}/`) ? 'consent' : undefined;
}

const POSTED: Record<string, FlowStep> = {
  [ENDPOINTS.registration]: 'register',
  [ENDPOINTS.revocation]: 'revoke',
};

function tokenStep(ctx: Koa.Context): FlowStep {
  return requestContext(ctx).grantType === 'refresh_token' ? 'refresh' : 'exchange';
}

function outcomeOf({ status, response }: Koa.Context): FlowOutcome {
  if (status >= 500) return 'failed';
  if (status === 429) return 'limited';
  if (status >= 400) return 'refused';
  const answer = answerIn(response.get('Location'));
  if (answer === 'access_denied') return 'denied';
  return answer === undefined || answer === 'code' ? 'done' : 'refused';
}

/** What a redirect to the client says: `code`, or the error (RFC 6749 section 4.1.2). */
function answerIn(location: string): string | undefined {
  if (/[?&]code=/.test(location)) return 'code';
  return /[?&]error=([^&]*)/.exec(location)?.[1];
}
