// An authorization request made canonical before the engine reads it: resource (RFC 8707), scope (RFC 6749 section 3.3), prompt and key.
import type Koa from 'koa';
import { canonicalResource, connectorIdOf, connectLink } from '../../connectors/connect-link.ts';
import { HttpError } from '../../http/errors.ts';
import { findConnector, findConnectorNamed } from '../../connectors/connectors.ts';
import {
  highestLevelIn,
  levelsUpTo,
  lowest,
  type Level,
  OFFLINE_ACCESS,
} from '../../permission-level.ts';
import type { Store } from '../../store/store.ts';

export type AuthorizationRequestOptions = {
  store: Store;
  resourceUrl: string;
  /** Id or name of the connector for clients that send no `resource`. */
  defaultConnector?: string;
  /** `offered`: the person decides about staying connected, whatever was asked. */
  stayConnected: 'offered' | 'on-request';
  now: () => number;
};

/** Parameters of OpenID Connect that clients send out of habit, and that the engine refuses without `openid`. */
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

/** `scope` becomes every level up to the most that can be granted, so that the person may pick a lower one. */
export function canonicalAuthorizationRequest(
  options: AuthorizationRequestOptions,
): Koa.Middleware {
  return async function canonicalRequest(ctx, next) {
    const query: Query = { ...ctx.query };
    if (query.response_mode !== undefined && query.response_mode !== 'query') {
      throw new HttpError(400, 'invalid_request', 'the only response_mode is query');
    }
    for (const name of IGNORED) delete query[name];
    requireThumbprint(query.dpop_jkt);
    query.resource = await requestedResource(options, query.resource);
    query.scope = await requestedScope(options, query);
    query.prompt = requestedPrompt(query.prompt);
    ctx.query = Object.fromEntries(
      Object.entries(query).filter(([, value]) => value !== undefined),
    );
    return next();
  };
}

/** RFC 9449 section 10. With anything else than a thumbprint (RFC 7638) nobody could ever redeem the code; two are the engine's to refuse. */
function requireThumbprint(sent: Query[string]): void {
  if (typeof sent === 'string' && sent !== '' && !THUMBPRINT.test(sent))
    throw new HttpError(400, 'invalid_request', 'dpop_jkt is not the SHA-256 thumbprint of a key');
}

const THUMBPRINT = /^[\w-]{43}$/;

/** What cannot be canonical stays as sent: the engine refuses it. Several different ones stay several, and are refused too. */
async function requestedResource(
  options: AuthorizationRequestOptions,
  sent: Query[string],
): Promise<Query[string]> {
  if (sent === undefined || sent === '') {
    const { store, resourceUrl, defaultConnector, now } = options;
    if (defaultConnector === undefined) return undefined;
    const connector = await findConnectorNamed(store, defaultConnector, now());
    return connector && connectLink(resourceUrl, connector.id);
  }
  const distinct = [...new Set([sent].flat().map((value) => canonicalResource(value) ?? value))];
  return distinct.length === 1 ? distinct[0] : distinct;
}

async function requestedScope(
  options: AuthorizationRequestOptions,
  query: Query,
): Promise<string | undefined> {
  const sent = typeof query.scope === 'string' ? query.scope : undefined;
  // RFC 6749 section 3.1: one parameter twice is an error, which the engine answers.
  if (Array.isArray(query.scope)) return query.scope as unknown as string;
  const ceiling = await connectorLevel(options, query.resource);
  const asked = highestLevelIn(sent);
  const level = lowest(ceiling ?? 'full', ...(asked ? [asked] : []));
  const offline =
    options.stayConnected === 'offered' || !sent || sent.split(' ').includes(OFFLINE_ACCESS);
  return [...levelsUpTo(level), ...(offline ? [OFFLINE_ACCESS] : [])].join(' ');
}

async function connectorLevel(
  { store, resourceUrl }: AuthorizationRequestOptions,
  resource: Query[string],
): Promise<Level | undefined> {
  const id = typeof resource === 'string' ? connectorIdOf(resourceUrl, resource) : undefined;
  return id === undefined ? undefined : (await findConnector(store, id))?.level;
}

/** `consent` is always asked for: it is what keeps `offline_access` in a request, and we ask every time anyway. */
function requestedPrompt(sent: Query[string]): Query[string] {
  if (Array.isArray(sent)) return sent;
  const values = String(sent ?? '').split(' ');
  if (values.includes('none')) return 'none';
  return values.includes('login') ? 'login consent' : 'consent';
}
