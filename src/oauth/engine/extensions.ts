// Extensions for which the engine has no documented hook. The tests named here fail if the engine changes.
import type Koa from 'koa';
import { type Client, type Interaction, Provider } from 'oidc-provider';
import { isWorkloadSubject } from '../../settings/workloads.ts';
import type { PublicKey } from '../../settings/key-set.ts';
import type { KeyLoader } from './client-keys.ts';
import { constantTimeEqual } from '../../constant-time.ts';
import { requestContext } from '../../http/request-context.ts';
import type { AttemptLimiter } from '../../http/failed-attempts.ts';
import { secretDigest } from '../../clients/client-secrets.ts';
import { tooManyAttempts } from './errors.ts';
import { canonicalDeviceRequest, withoutEmpty } from './authorization-request.ts';
import type { GrantModels } from './grant-models.ts';

type UnsavedToken = { jti?: string; grantId?: string };

/**
 * Sets our values for codes and refresh tokens (`connections/opaque-token.ts`). The engine calls the documented `ttl` function in `save()`, just
 * before it generates a random value for a token that has none.
 * Test: flows/engine-extensions.test.ts.
 */
export function ttlThatSetsValue(
  kind: 'AuthorizationCode' | 'RefreshToken',
  seconds: number,
  createTokenValue: GrantModels['createTokenValue'],
) {
  return (_ctx: unknown, token: UnsavedToken): number => {
    if (token.grantId && !token.jti) token.jti = createTokenValue(kind, token.grantId);
    return seconds;
  };
}

/**
 * Changes parameters before the engine reads them.
 * - It does not revoke or introspect JWTs. Its `findToken` asks each model for the presented value, so on these two routes we replace the JWT by
 *   a value that looks opaque, which our AccessToken model resolves.
 * - It requires `redirect_uri` with a code. OAuth 2.1 (section 4.1.3) does not: see `comparedRedirectUri`.
 * - A device sends its `resource` as apps do in a browser: a non-canonical one, or twice. See `canonicalDeviceRequest`.
 * - It counts a repeated parameter twice even if one of them has no value, which means that it was omitted (RFC 6749 section 3.1).
 * - A workload has no client. See `asWorkload`.
 * - It refuses every `Authorization` header but Basic. Some apps send the header that their user configured for the MCP server everywhere.
 *
 * Tests: flows/engine-extensions.test.ts, flows/token-endpoint.test.ts, connections/codes.test.ts, flows/device-grant.test.ts.
 */
export function replaceParameters(
  provider: Provider,
  asWorkload?: (ctx: Koa.Context, params: Record<string, unknown>) => void,
): void {
  const { prototype } = (provider as unknown as { OIDCContext: { prototype: object } }).OIDCContext;
  const assembled = Symbol('params');
  type Context = { ctx: Koa.Context; route?: string; [assembled]?: Record<string, unknown> };
  Object.defineProperty(prototype, 'params', {
    configurable: true,
    get(this: Context) {
      return this[assembled];
    },
    set(this: Context, params: Record<string, unknown>) {
      for (const [name, value] of Object.entries(params))
        if (Array.isArray(value)) params[name] = withoutEmpty(value);
      if (this.route === 'token') asWorkload?.(this.ctx, params);
      const { headers } = this.ctx.req;
      const isBasic = /^basic /i.test(headers.authorization ?? '');
      if (isBasic) headers.authorization = decodable(headers.authorization);
      else if (typeof params.client_id === 'string') delete headers.authorization;
      const isAboutToken = this.route === 'revocation' || this.route === 'introspection';
      // Refresh tokens have no dots. Their first letters can be those of a JWT.
      if (isAboutToken && typeof params.token === 'string' && params.token.includes('.')) {
        params.token = OPAQUE_PREFIX + params.token.replaceAll('.', '~');
      }
      if (this.route === 'token' && params.grant_type === 'authorization_code')
        params.redirect_uri ??= OF_THE_CODE;
      if (this.route === 'device_authorization') canonicalDeviceRequest(params);
      this[assembled] = params;
    },
  });
}

const BASIC = /^basic +([a-z0-9+/]+=*)$/i;

/** The id and the secret of a Basic header as they were sent: encoded (RFC 6749 section 2.3.1), or not, as by many clients. */
function basicCredentials(authorization = ''): [id: string, secret: string] | undefined {
  const [, encoded] = BASIC.exec(authorization) ?? [];
  const [id, ...secret] = Buffer.from(encoded ?? '', 'base64')
    .toString('utf8')
    .split(':');
  return id === undefined || secret.length === 0 ? undefined : [id, secret.join(':')];
}

/** Encodes credentials that cannot be encoded ones, because of a `%`. */
function decodable(authorization: string | undefined): string | undefined {
  const credentials = basicCredentials(authorization);
  if (!credentials?.some((text) => /%(?![\da-f]{2})/i.test(text))) return authorization;
  const text = credentials.map(encodeURIComponent).join(':');
  return `Basic ${Buffer.from(text).toString('base64')}`;
}

/** The engine treats empty parameters as missing, so no request has this value. */
const OF_THE_CODE = '';

/** The `redirect_uri` that the engine compares with the code's: the one of the token request or, without one, the code's. */
export function comparedRedirectUri(requested: unknown, ofCode: unknown): unknown {
  return requested === OF_THE_CODE ? ofCode : requested;
}

const OPAQUE_PREFIX = 'jwt~';

/** The JWT behind a value made by `replaceParameters`. */
export function presentedJwt(value: string): string | undefined {
  return value.startsWith(OPAQUE_PREFIX)
    ? value.slice(OPAQUE_PREFIX.length).replaceAll('~', '.')
    : undefined;
}

/**
 * Replaces the method that compares client secrets, which the engine exposes for this purpose (its issue 631), because only digests are
 * stored and configured: the engine's `clientSecret` is the digest. Also limits wrong guesses.
 * Test: flows/token-endpoint.test.ts.
 */
export function compareByDigest(provider: Provider, limiter: AttemptLimiter): void {
  provider.Client.prototype.compareClientSecret = async function compareDigests(
    actual: string,
  ): Promise<boolean> {
    const stored = this.clientSecret ?? '';
    const ctx = Provider.ctx;
    if (!ctx) return isSecret(stored, actual);
    const attempt = {
      address: requestContext(ctx).address,
      subject: this.clientId,
      secret: actual,
    };
    // A `+` that was not encoded reads as a space.
    const [, asSent] = basicCredentials(ctx.get('Authorization')) ?? [];
    const { isCorrect, retryAfter } = await limiter(
      attempt,
      () => isSecret(stored, actual) || (asSent !== undefined && isSecret(stored, asSent)),
    );
    if (retryAfter !== undefined) throw tooManyAttempts(ctx, retryAfter);
    return isCorrect;
  };
}

function isSecret(digest: string, given: string): boolean {
  return constantTimeEqual(digest, secretDigest(given));
}

/** The engine's key store of one client. It fetches keys itself unless it is fresh. */
type KeyStore = { add: (key: PublicKey) => void; freshUntil?: number };

/** What the engine's clients have besides what its types name. */
export type KeyClient = Pick<Client, 'clientId' | 'clientAuthMethod'> & {
  tokenEndpointAuthMethod: string;
  asymmetricKeyStore: KeyStore;
  jwksUri?: string;
  jwks?: unknown;
};

/**
 * Gives clients that authenticate with a key their keys when the engine finds them. It would fetch `jwks_uri` itself, anew for each request of
 * a metadata-document client, and report every failure as the fault of the client. The audiences that it would accept depend on the address of
 * the request; ours are fixed.
 * Test: oauth/client-keys.test.ts.
 */
export function authenticateByKeys(
  provider: Provider,
  loadKeys: KeyLoader,
  audiences: readonly string[],
): void {
  const clients = provider.Client;
  const find = clients.find.bind(clients);
  clients.find = async (id) => {
    const client = await find(id);
    if (!client || !Provider.ctx) return client;
    return (await loadKeys(client as unknown as KeyClient, Provider.ctx)) as unknown as Client;
  };
  type Prototype = { clientJwtAuthExpectedAudience: () => Set<string> };
  const { prototype } = (provider as unknown as { OIDCContext: { prototype: Prototype } })
    .OIDCContext;
  prototype.clientJwtAuthExpectedAudience = () => new Set(audiences);
}

/**
 * Finds the client of all workloads by the subject of one, which is the client of its tokens, where the engine describes a token.
 * Test: flows/workloads.test.ts.
 */
export function findClientOfWorkloads(provider: Provider, workloadClient: string): void {
  const clients = provider.Client;
  const find = clients.find.bind(clients);
  clients.find = (id) => {
    const { route, client } = Provider.ctx?.oidc ?? {};
    // Before the caller has authenticated, the id is what the caller says of itself.
    const isOfToken = route === 'introspection' && client !== undefined && isWorkloadSubject(id);
    return find(isOfToken ? workloadClient : id);
  };
}

/** Returns the client with these keys, for one request: other requests at the same time, which share the engine's object, may need others. */
export function withKeys(client: KeyClient, keys: readonly PublicKey[]): KeyClient {
  const view = Object.create(client) as KeyClient;
  const { constructor: Store } = client.asymmetricKeyStore;
  const store = new (Store as new (client: KeyClient) => KeyStore)(view);
  for (const key of keys) store.add(key);
  store.freshUntil = Infinity;
  return Object.defineProperty(view, 'asymmetricKeyStore', { value: store });
}

/**
 * Rotates the session id at sign-ins only. The engine rotates it whenever it resumes an interaction, so that of consent pages that one browser
 * sends at the same time, all but one would arrive with an id that no longer exists. A result is merged with those of earlier steps, so a sign-in is
 * a login that the interaction did not begin with.
 * Tests: security/sessions.test.ts, flows/approvals-at-once.test.ts.
 */
export function rotateSessionAtSignIn(provider: Provider): void {
  type Prototype = { resetIdentifier: () => void };
  const { prototype } = provider.Session as unknown as { prototype: Prototype };
  const { resetIdentifier } = prototype;
  prototype.resetIdentifier = function resetAtSignIn(this: Prototype) {
    const { Interaction: interaction } = Provider.ctx?.oidc.entities ?? {};
    if (!interaction || isSignIn(interaction)) resetIdentifier.call(this);
  };
}

function isSignIn({ prompt, result, lastSubmission }: Interaction): boolean {
  const [now, before] = [result?.login, lastSubmission?.login];
  const isEarlier = now?.accountId === before?.accountId && now?.ts === before?.ts;
  return prompt.name !== 'consent' || !isEarlier;
}
