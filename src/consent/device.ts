// The pages where a person enters the code of a device (RFC 8628 section 3.3). The code starts an ordinary interaction: the same sign-in and the
// same consent page, whose decision goes to the device that polls.
import { randomBytes } from 'node:crypto';
import type { Router } from '@koa/router';
import type Koa from 'koa';
import { appEndWithCode } from '../connections/app-ends.ts';
import { readForm } from '../http/body.ts';
import { COOKIE, hostCookieName } from '../http/cookies.ts';
import { HttpError, tooManyRequests, unavailable } from '../http/errors.ts';
import { requireNavigation } from '../http/fetch-metadata.ts';
import { createFormToken, requireFormToken } from '../http/form-tokens.ts';
import { limitRate } from '../http/rate-limits.ts';
import { requestContext } from '../http/request-context.ts';
import { deviceScope } from '../oauth/engine/authorization-request.ts';
import {
  findWaitingDevice,
  formattedUserCode,
  normalizedUserCode,
  type WaitingDevice,
} from '../oauth/engine/device-codes.ts';
import { startDeviceInteraction } from '../oauth/engine/device-interaction.ts';
import { engineRequest } from '../oauth/engine/engine-request.ts';
import { DEVICE_PATH } from '../oauth/metadata.ts';
import { requireSameOrigin } from '../http/same-origin.ts';
import { type InteractionContext, requireResumeCookie } from './interaction.ts';
import { saveDeviceResult, showResultOf } from './resubmission.ts';

/** As in the form. */
const MAX_TYPED = 20;

/** Routes of `/device`, and the engine's resume endpoint below it. */
export function devicePages(router: Router, context: InteractionContext): void {
  const { services, settings, engine } = context;
  const refuseUnseen = requireNavigation('GET, POST');
  const limit = limitRate(services.rateLimits.signIns);
  router.get(DEVICE_PATH, refuseUnseen, limit, (ctx) => {
    const { user_code: sent } = ctx.query;
    const code = typeof sent === 'string' ? normalizedUserCode(sent) : undefined;
    return showDevicePage(context, ctx, { code });
  });
  router.post(DEVICE_PATH, refuseUnseen, limit, async (ctx) => {
    requireSameOrigin(ctx, settings.authUrl);
    const form = await readForm(ctx);
    const { forms } = services.keys;
    requireFormToken(forms, formContext(ctx.cookies.get(cookieName(context))), form.token);
    const found = await guess(context, ctx, form.user_code ?? '');
    const typed = (form.user_code ?? '').slice(0, MAX_TYPED);
    if (!found) return showDevicePage(context, ctx, { typed, trouble: 'unknown' });
    const params = await interactionParams(context, found.device);
    await startDeviceInteraction(engine.provider(), ctx, found.id, params);
  });
  router.get(
    `${DEVICE_PATH}/:uid`,
    requireNavigation('GET'),
    requireResumeCookie(engine.provider),
    recordDecision(context),
    engine.middleware,
  );
}

function cookieName({ site }: InteractionContext): string {
  return hostCookieName('gatehouse-device', site);
}

function formContext(browser: string | undefined): string {
  if (browser === undefined) throw new HttpError(400, 'expired', 'open the page again');
  return `device\n${browser}`;
}

/** The cookie binds the form to this browser. */
function showDevicePage(
  context: InteractionContext,
  ctx: Koa.Context,
  { code, typed, trouble }: { code?: string | undefined; typed?: string; trouble?: 'unknown' },
): Promise<void> {
  const name = cookieName(context);
  const browser = ctx.cookies.get(name) ?? randomBytes(16).toString('base64url');
  ctx.cookies.set(name, browser, { ...COOKIE, signed: false });
  const values = {
    action: DEVICE_PATH,
    token: createFormToken(context.services.keys.forms, formContext(browser)),
    ...(code === undefined ? {} : { code: formattedUserCode(code) }),
    ...(typed === undefined ? {} : { typed }),
    ...(trouble === undefined ? {} : { trouble }),
  };
  return context.services.pages.render(ctx, 'device', values, trouble ? 400 : 200);
}

/** Counts every guess before it is checked, so that concurrent ones cannot exceed the limit, and takes a correct one back. */
async function guess(
  { services: { store, rateLimits, now } }: InteractionContext,
  ctx: Koa.Context,
  typed: string,
): ReturnType<typeof findWaitingDevice> {
  const { address } = requestContext(ctx);
  const wait = await rateLimits.userCodes.consume(address);
  if (wait !== undefined) throw tooManyRequests(wait);
  const code = normalizedUserCode(typed);
  const found = code === undefined ? undefined : await findWaitingDevice(store, code, now());
  if (found) await rateLimits.userCodes.penalize(address, '', -1);
  return found;
}

/** What the engine would keep of an authorization request. */
async function interactionParams(
  { settings, services: { store, now } }: InteractionContext,
  { payload }: WaitingDevice,
) {
  const { clientId, params } = payload;
  const options = {
    store,
    now,
    settings,
    resourceUrl: settings.resourceUrl,
    stayConnected: settings.consent.stayConnected,
  };
  return {
    client_id: clientId,
    resource: params.resource,
    scope: await deviceScope(options, params),
  };
}

/** Shows the decision when the engine resumes an interaction, and stores it for a form that is submitted again. */
function recordDecision(context: InteractionContext): Koa.Middleware {
  return async function deviceDecisionRecorded(ctx, next) {
    const uid = String(ctx.params.uid);
    await next();
    const decision = engineRequest(ctx).deviceOutcome;
    // The engine's page that ends the session of another person needs a script, which our security headers block.
    if (decision === undefined && ctx.status === 200) throw failure('expired');
    if (decision === undefined) return;
    if (typeof decision === 'object') {
      if (await showResultOf(context, ctx, uid)) return;
      throw failure(decision.error);
    }
    await saveDeviceResult(context, ctx, uid, decision);
  };
}

/** Errors that have a page of their own. All others mean that the interaction, or the code, has ended. */
function failure(error: string): HttpError {
  const appEnd = appEndWithCode(error);
  if (appEnd) return new HttpError(403, appEnd.code, appEnd.message);
  switch (error) {
    case 'temporarily_unavailable':
      return unavailable(new Error('the decision about a device could not be stored'));
    case 'server_error':
      return new HttpError(500, 'server_error', 'the decision about a device failed');
    case 'invalid_client':
    case 'invalid_target':
      return new HttpError(400, error, 'the app or the connect link is no longer valid');
    case 'connector_paused':
      return new HttpError(400, error, 'an administrator paused this connect link');
    default:
      return new HttpError(
        400,
        'device_expired',
        'the device code has expired or was already used',
      );
  }
}
