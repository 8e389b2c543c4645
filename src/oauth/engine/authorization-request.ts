// Limits the size of authorization requests and rewrites them to a canonical form before the engine reads them: resource (RFC 8707), scope
// (RFC 6749 section 3.3) and prompt. Then the interaction policy decides whether the person must sign in and consent.
import type Koa from 'koa';
import {
  errors,
  type interactionPolicy as Policy,
  interactionPolicy,
  type KoaContextWithOIDC,
} from 'oidc-provider';
import { canonicalResource, connectorIdOf, connectLink } from '../../links/connect-link.ts';
import { type Connector, type ConnectorSettings, connectorState } from '../../links/connector.ts';
import { findConnector, findConnectorNamed } from '../../links/connectors.ts';
import { HttpError } from '../../http/errors.ts';
import {
  highestLevel,
  highestLevelIn,
  levelsUpTo,
  lowest,
  OFFLINE_ACCESS,
} from '../../permission-levels.ts';
import type { Store } from '../../store/store.ts';
import { engineRequest } from './engine-request.ts';

/** In characters. Real clients send about 700. */
const MAX_QUERY_LENGTH = 4096;
const MAX_PARAMETERS = 100;
const MAX_STATE_LENGTH = 2048;
const MAX_RESOURCES = 5;
const MAX_SCOPES = 30;
const MAX_DEVICE_SCOPE_LENGTH = 1000;

/** Throws 400 or 414, because the engine stores the whole request before anyone has authenticated. */
export const limitAuthorizationRequest: Koa.Middleware = function authorizationRequestLimited(
  ctx,
  next,
) {
  if (ctx.querystring.length > MAX_QUERY_LENGTH) {
    const message = `the address is longer than ${MAX_QUERY_LENGTH} characters`;
    throw new HttpError(414, 'invalid_request', message);
  }
  const { state, resource, scope } = ctx.query;
  const sizes: [what: string, size: number, max: number][] = [
    ['parameters', ctx.querystring.split('&').length, MAX_PARAMETERS],
    ['characters in state', String(state ?? '').length, MAX_STATE_LENGTH],
    ['resources', [resource ?? []].flat().length, MAX_RESOURCES],
    ['scopes', String(scope ?? '').split(' ').length, MAX_SCOPES],
  ];
  for (const [what, size, max] of sizes) {
    if (size > max)
      throw new HttpError(400, 'invalid_request', `the request has more than ${max} ${what}`);
  }
  return next();
};

export type AuthorizationRequestOptions = {
  store: Store;
  resourceUrl: string;
  /** Id or name of the connector for clients that send no `resource`. */
  defaultConnector?: string | undefined;
  /** `offered`: the consent page offers a refresh token even if the client did not ask for one. */
  stayConnected: 'offered' | 'on-request';
  settings: ConnectorSettings;
  now: () => number;
};

/** OpenID Connect parameters that clients send anyway. The engine rejects them without the scope `openid`. */
const IGNORED = [
  'nonce',
  'max_age',
  'acr_values',
  'id_token_hint',
  'claims',
  'claims_locales',
  'display',
  'registration',
];

type Query = Record<string, string | string[] | undefined>;

/** Returns the only value that is not empty, all if there are several, or undefined. */
export function withoutEmpty(values: readonly string[]): string | string[] | undefined {
  const given = values.filter((value) => value !== '');
  return given.length > 1 ? given : given[0];
}

/** Expands `scope` to every level up to the highest that can be granted, so that the person may choose a lower one. */
export function canonicalAuthorizationRequest(
  options: AuthorizationRequestOptions,
): Koa.Middleware {
  return async function canonicalRequest(ctx, next) {
    // A parameter without a value counts as omitted (RFC 6749 section 3.1).
    const query: Query = Object.fromEntries(
      Object.entries(ctx.query).map(([name, value]) => [name, withoutEmpty([value ?? []].flat())]),
    );
    if (query.response_mode !== undefined && query.response_mode !== 'query') {
      throw new HttpError(400, 'invalid_request', 'response_mode must be query');
    }
    for (const name of IGNORED) delete query[name];
    requireThumbprint(query.dpop_jkt);
    query.resource = await requestedResource(options, query.resource);
    query.scope = await requestedScope(options, query, ctx);
    query.prompt = requestedPrompt(query.prompt);
    ctx.query = Object.fromEntries(
      Object.entries(query).filter(([, value]) => value !== undefined),
    );
    return next();
  };
}

/**
 * Like `canonicalAuthorizationRequest`, for the parameters of a device (RFC 8628 section 3.1), which are changed in place. Throws
 * `invalid_scope` if there are too many scopes, because they are stored.
 */
export function canonicalDeviceRequest(params: Record<string, unknown>): void {
  if (String(params.scope ?? '').length > MAX_DEVICE_SCOPE_LENGTH)
    throw new errors.InvalidScope('the scope is too long', '');
  for (const name of [...IGNORED, 'login_hint', 'ui_locales']) delete params[name];
  if (params.resource !== undefined)
    params.resource = distinctResource(params.resource as string | string[]);
}

/** Returns the scope that a device may be granted, as `canonicalAuthorizationRequest` does for apps. */
export function deviceScope(
  options: AuthorizationRequestOptions,
  { scope, resource }: { scope?: string; resource: string },
): Promise<string | undefined> {
  return requestedScope(options, { scope, resource });
}

/** Returns the connect link of `defaultConnector`, if it is set and active. */
export async function defaultResource({
  store,
  resourceUrl,
  defaultConnector,
  settings,
  now,
}: Omit<AuthorizationRequestOptions, 'stayConnected'>): Promise<string | undefined> {
  if (defaultConnector === undefined) return undefined;
  const connector = await findConnectorNamed(
    store,
    defaultConnector,
    (each) => connectorState(each, now(), settings) === 'active',
  );
  return connector && connectLink(resourceUrl, connector.id);
}

const THUMBPRINT = /^[\w-]{43}$/;

/** RFC 9449 section 10. A code that is bound to anything but a thumbprint (RFC 7638) could never be redeemed. */
function requireThumbprint(sent: Query[string]): void {
  if (typeof sent === 'string' && sent !== '' && !THUMBPRINT.test(sent))
    throw new HttpError(400, 'invalid_request', 'dpop_jkt is not the SHA-256 thumbprint of a key');
}

/** Invalid and multiple resources are left as sent, because the engine rejects them. */
async function requestedResource(
  options: AuthorizationRequestOptions,
  sent: Query[string],
): Promise<Query[string]> {
  return sent === undefined || sent === '' ? defaultResource(options) : distinctResource(sent);
}

/** Two equal values count as one. */
function distinctResource(sent: string | string[]): string | string[] | undefined {
  const distinct = [...new Set([sent].flat().map((value) => canonicalResource(value) ?? value))];
  return distinct.length === 1 ? distinct[0] : distinct;
}

async function requestedScope(
  options: AuthorizationRequestOptions,
  query: Query,
  ctx?: Koa.Context,
): Promise<string | undefined> {
  const sent = typeof query.scope === 'string' ? query.scope : undefined;
  // The engine rejects repeated parameters (RFC 6749 section 3.1).
  if (Array.isArray(query.scope)) return query.scope as unknown as string;
  const connector = await connectorOf(options, query.resource);
  if (ctx && connector) engineRequest(ctx).connector = connector;
  const {
    settings: { levels },
    stayConnected,
  } = options;
  const asked = highestLevelIn(levels, sent);
  const level = lowest(levels, connector?.level ?? highestLevel(levels), ...(asked ? [asked] : []));
  const offline = stayConnected === 'offered' || !sent || sent.split(' ').includes(OFFLINE_ACCESS);
  return [...levelsUpTo(levels, level), ...(offline ? [OFFLINE_ACCESS] : [])].join(' ');
}

async function connectorOf(
  { store, resourceUrl }: AuthorizationRequestOptions,
  resource: Query[string],
): Promise<Connector | undefined> {
  const id = typeof resource === 'string' ? connectorIdOf(resourceUrl, resource) : undefined;
  return id === undefined ? undefined : findConnector(store, id);
}

/** Always includes `consent`. Without it the engine drops `offline_access`, and the consent page is shown every time anyway. */
function requestedPrompt(sent: Query[string]): Query[string] {
  if (Array.isArray(sent)) return sent;
  const values = String(sent ?? '').split(' ');
  if (values.includes('none')) return 'none';
  return values.includes('login') ? 'login consent' : 'consent';
}

const { Check, Prompt } = interactionPolicy;

/**
 * The engine's `interactions.policy`: login without a valid session, and consent for every authorization. A grant is valid only in the
 * interaction that approved it, so consent for one connector never covers another. A session lasts `session` seconds from the sign-in, and ends
 * when the account is disabled or the identity provider ends it.
 */
export function interactionPrompts(session: number): Policy.Prompt[] {
  const signIn = new Check('no_session', 'sign-in is required', 'interaction_required', (ctx) => {
    const { session: browser, result } = ctx.oidc;
    const { hasSession } = (ctx.oidc.account ?? {}) as {
      hasSession?: (signedInAt: number) => boolean;
    };
    // The account may have been disabled and enabled again since the sign-in of this interaction, or signed out by the identity provider.
    const isEnded = hasSession?.(Number(browser?.loginTs)) === false;
    const isExpired = isEnded || (!result?.login && browser?.past(session));
    return browser?.accountId === undefined || isExpired
      ? Check.REQUEST_PROMPT
      : Check.NO_NEED_TO_PROMPT;
  });
  const consent = new Check(
    'not_approved',
    'consent is required',
    'interaction_required',
    (ctx) => {
      const approved = approvedGrantId(ctx);
      const isLoaded = approved !== undefined && ctx.oidc.entities.Grant?.jti === approved;
      return isLoaded ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT;
    },
  );
  return [
    new Prompt({ name: 'login', requestable: true }, signIn),
    new Prompt({ name: 'consent', requestable: true }, consent),
  ];
}

/** Returns the id of the grant that the consent step of this interaction created. */
export function approvedGrantId(ctx: KoaContextWithOIDC): string | undefined {
  return ctx.oidc.result?.consent?.grantId;
}
