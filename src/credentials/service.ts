// The authorization server of an upstream (RFC 9728, RFC 8414, OpenID Connect Discovery) and Gatehouse as its client (RFC 7591).
import * as openid from 'openid-client';
import { isObject, membersOf } from '../json-values.ts';
import { exchangeProvider, type OAuthCredentialSettings } from '../settings/credentials.ts';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { identityProviderSettings } from '../sign-in/provider.ts';
import type { Store } from '../store/store.ts';
import { DOCUMENT_PATH, redirectUri } from './page-address.ts';
import { type ServiceClient, TOKEN_TIMEOUT_SECONDS } from './credential.ts';
import { normalizedTokenAnswer, type ServiceNetwork, sendToService } from './service-fetch.ts';

export type OAuthUpstream = Upstream & { credential: OAuthCredentialSettings };

/**
 * The service cannot be used now, and why. Shows nothing secret. `isPermanent`: until an operator changes something. `code`: what the service answered, for
 * the audit log.
 */
export class ServiceFault extends Error {
  readonly isPermanent: boolean;
  readonly code: string | undefined;
  constructor(
    message: string,
    {
      isPermanent = false,
      code,
      cause,
    }: { isPermanent?: boolean; code?: string; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.isPermanent = isPermanent;
    this.code = code;
  }
}

/** The service refuses our client (RFC 6749 section 5.2). */
export function isClientRefused(code: string | undefined): boolean {
  return code === 'invalid_client' || code === 'unauthorized_client';
}

export type ServiceOptions = {
  store: Store;
  network: ServiceNetwork;
  /** Where services send the browser back. */
  redirectUri: string;
  /** Of our own metadata document; undefined if services cannot fetch it. */
  documentUrl: string | undefined;
  productName: string;
  now: () => number;
};

export function serviceOptions(
  settings: Pick<Settings, 'authUrl' | 'forwardProxy' | 'productName'>,
  { store, now }: Pick<ServiceOptions, 'store' | 'now'>,
  upstream: Upstream,
): ServiceOptions {
  const isPublic = settings.authUrl.startsWith('https:');
  return {
    store,
    now,
    network: { trustedHosts: trustedHostsOf(upstream), forwardProxy: settings.forwardProxy },
    redirectUri: redirectUri(settings),
    documentUrl: isPublic ? documentUrlOf(settings) : undefined,
    productName: settings.productName,
  };
}

function documentUrlOf({ authUrl }: Pick<Settings, 'authUrl'>): string {
  return `${authUrl}${DOCUMENT_PATH}`;
}

/** The service of an upstream as found, and our client there. */
export type Service = ServiceClient & {
  scopesSupported: readonly string[] | undefined;
  /** The callback has `iss` (RFC 9207). */
  advertisesIss: boolean;
};

type ServerMetadata = Record<string, unknown>;

/** Rejects with a ServiceFault. Hosts of `upstream.url` and of addresses in the settings may be private. */
export async function findService(
  upstream: OAuthUpstream,
  options: ServiceOptions,
): Promise<Service> {
  return withClient(upstream, options, await findServer(upstream, options.network));
}

/** The authorization server, as it describes itself or as the settings do. Rejects with a ServiceFault. */
export async function findServer(
  upstream: OAuthUpstream,
  network: ServiceNetwork,
): Promise<FoundServer> {
  const { credential } = upstream;
  const { authorizationEndpoint, tokenEndpoint, revocationEndpoint } = credential;
  if (authorizationEndpoint !== undefined && tokenEndpoint !== undefined)
    return {
      server: {
        authorization_endpoint: authorizationEndpoint,
        token_endpoint: tokenEndpoint,
        ...(revocationEndpoint === undefined ? {} : { revocation_endpoint: revocationEndpoint }),
      },
      resource: configuredResource(credential, upstream.url, undefined),
    };
  const protectedResource = await findProtectedResource(upstream, network);
  const [named] = [protectedResource?.['authorization_servers']].flat();
  const issuer =
    credential.issuer ?? (typeof named === 'string' ? named : new URL(upstream.url).origin);
  if (!isUsable(issuer, network)) throw unusable('issuer');
  const server = await findServerMetadata(issuer, network);
  const stated = protectedResource?.['resource'];
  if (credential.resource === undefined && !isOwnResource(stated, upstream.url))
    throw new ServiceFault(
      'the MCP server says that it is another resource than its address: set resource to the one that its tokens are for',
      { isPermanent: true },
    );
  const resource = configuredResource(
    credential,
    upstream.url,
    isEntra(issuer) ? undefined : typeof stated === 'string' ? stated : upstream.url,
  );
  requireUsable(server, network);
  return { server, resource };
}

/**
 * RFC 9728 section 3.3: a server could name another one, and would receive tokens for it (section 7.3). The path may be that of a part of the
 * server, because some name themselves so.
 */
function isOwnResource(stated: unknown, address: string): boolean {
  if (typeof stated !== 'string') return true;
  const [named, own] = [URL.parse(stated), new URL(address)];
  const pathOf = ({ pathname }: URL) => `${pathname.replace(/\/$/, '')}/`;
  return named?.origin === own.origin && pathOf(own).startsWith(pathOf(named));
}

/** What a document names is https, or at a host that the settings name. The browser goes there too. */
function isUsable(address: string, { trustedHosts }: ServiceNetwork): boolean {
  const url = URL.parse(address);
  if (!url || url.username !== '' || url.password !== '') return false;
  return url.protocol === 'https:' || (url.protocol === 'http:' && trustedHosts.has(url.hostname));
}

function unusable(what: string): ServiceFault {
  return new ServiceFault(`the ${what} that the MCP server or its service names cannot be used`, {
    isPermanent: true,
  });
}

/** Hosts that the settings name. */
export function trustedHostsOf(upstream: Upstream): Set<string> {
  const { credential } = upstream;
  const named =
    credential?.kind === 'oauth'
      ? [
          credential.issuer,
          credential.authorizationEndpoint,
          credential.tokenEndpoint,
          credential.revocationEndpoint,
        ]
      : [];
  return new Set(
    [upstream.url, ...named].flatMap((url) => (url === undefined ? [] : [new URL(url).hostname])),
  );
}

type ConfiguredClient = {
  clientId?: string | undefined;
  secret: string | undefined;
  issuer?: string | undefined;
  tokenEndpoint?: string | undefined;
};

/** The client that the settings name at the service, or at the provider where tokens are exchanged. */
function configuredClient(
  settings: Pick<Settings, 'identityProviders' | 'secret'>,
  { credential }: Upstream,
): ConfiguredClient | undefined {
  if (!credential || credential.kind === 'key') return undefined;
  const { clientId, clientSecret: secret } = credential;
  if (credential.kind === 'oauth') return { ...credential, secret };
  const provider = exchangeProvider(identityProviderSettings(settings), credential);
  if (!provider) return undefined;
  const { issuer, clientId: ofSignIn, clientSecret: secretOfSignIn } = provider;
  return clientId === undefined
    ? { clientId: ofSignIn, secret: secretOfSignIn, issuer }
    : { clientId, secret, issuer };
}

/**
 * The secret of our client at the service: its own if it was registered, or that of the settings. Undefined if the settings name another client
 * or service by now, which must not get this secret.
 */
export function secretFor(
  settings: Pick<Settings, 'identityProviders' | 'secret'>,
  upstream: Upstream | undefined,
  service: Pick<ServiceClient, 'clientId' | 'clientSecret' | 'issuer' | 'tokenEndpoint'>,
): string | undefined {
  if (service.clientSecret !== undefined) return service.clientSecret;
  const named = upstream && configuredClient(settings, upstream);
  if (named?.clientId !== service.clientId) return undefined;
  const { issuer, tokenEndpoint } = named;
  const isSame =
    (issuer === undefined ||
      (service.issuer !== undefined && isSameService(issuer, service.issuer))) &&
    (tokenEndpoint === undefined || tokenEndpoint === service.tokenEndpoint);
  return isSame ? named.secret : undefined;
}

function configuredResource(
  { resource }: OAuthCredentialSettings,
  url: string,
  found: string | undefined,
): string | undefined {
  if (resource === false) return undefined;
  if (resource === true) return url;
  return resource ?? found;
}

function isEntra(issuer: string): boolean {
  return /^login\.microsoftonline\.(com|us)$|^login\.partner\.microsoftonline\.cn$/.test(
    new URL(issuer).hostname,
  );
}

/** RFC 9728: named in the challenge, else at the path form and then at the root. Undefined if there is none. */
async function findProtectedResource(
  { url }: Upstream,
  network: ServiceNetwork,
): Promise<ServerMetadata | undefined> {
  const { origin, pathname } = new URL(url);
  const wellKnown = `${origin}/.well-known/oauth-protected-resource`;
  const challenged = await challengedMetadata(url, network).catch(() => undefined);
  const places = [
    challenged,
    ...(pathname === '/' ? [] : [`${wellKnown}${pathname}`]),
    wellKnown,
  ].filter((place) => place !== undefined);
  for (const place of new Set(places)) {
    const found = await readJson(place, network).catch(() => undefined);
    if (found && Array.isArray(found['authorization_servers'])) return found;
  }
  return undefined;
}

const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'gatehouse', version: '1' },
  },
});

async function challengedMetadata(
  url: string,
  network: ServiceNetwork,
): Promise<string | undefined> {
  const { headers } = await sendToService(url, network, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: INITIALIZE,
  });
  const challenge = headers.get('www-authenticate') ?? '';
  const [, named] = /\bresource_metadata="?([^",\s]+)"?/i.exec(challenge) ?? [];
  return named !== undefined && URL.canParse(named) ? named : undefined;
}

/** RFC 8414 section 3, and OpenID Connect Discovery section 4. A path-less issuer may differ by a slash. */
async function findServerMetadata(
  issuer: string,
  network: ServiceNetwork,
): Promise<ServerMetadata> {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, '');
  const places = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    ...(path === '' ? [] : [`${origin}${path}/.well-known/openid-configuration`]),
  ];
  let cause: unknown;
  for (const place of places) {
    const found = await readJson(place, network).catch((error: unknown) => void (cause = error));
    if (!found || typeof found['token_endpoint'] !== 'string') continue;
    if (!isSameService(String(found['issuer']), issuer))
      throw new ServiceFault(`the metadata of ${issuer} name another issuer`, {
        isPermanent: true,
      });
    return found;
  }
  throw new ServiceFault(`no metadata of the authorization server ${issuer} could be read`, {
    cause,
  });
}

export function isSameService(one: string, other: string): boolean {
  if (one === other) return true;
  const isPathless = (issuer: string) =>
    URL.canParse(issuer) && new URL(issuer).pathname === '/' && !/[?#]/.test(issuer);
  return (
    isPathless(one) && isPathless(other) && one.replace(/\/$/, '') === other.replace(/\/$/, '')
  );
}

async function readJson(url: string, network: ServiceNetwork): Promise<ServerMetadata | undefined> {
  const { status, text } = await sendToService(url, network, {
    headers: { accept: 'application/json' },
  });
  if (status !== 200) return undefined;
  const parsed: unknown = JSON.parse(text);
  return isObject(parsed) ? parsed : undefined;
}

export type FoundServer = { server: ServerMetadata; resource: string | undefined };

function requireUsable(server: ServerMetadata, network: ServiceNetwork): void {
  for (const name of ['authorization_endpoint', 'token_endpoint', 'registration_endpoint']) {
    const address = server[name];
    if (typeof address === 'string' && !isUsable(address, network)) throw unusable(name);
  }
}

async function withClient(
  upstream: OAuthUpstream,
  options: ServiceOptions,
  { server, resource }: FoundServer,
): Promise<Service> {
  const text = (name: string) => {
    const value = server[name];
    return typeof value === 'string' ? value : undefined;
  };
  const authorizationEndpoint = text('authorization_endpoint');
  const tokenEndpoint = text('token_endpoint');
  if (authorizationEndpoint === undefined || tokenEndpoint === undefined)
    throw new ServiceFault('the authorization server has no authorization or token endpoint', {
      isPermanent: true,
    });
  const issuer = text('issuer');
  const revocation = text('revocation_endpoint') ?? '';
  const revocationEndpoint = isUsable(revocation, options.network) ? revocation : undefined;
  const supported = server['scopes_supported'];
  const client = await findClient(upstream, options, server);
  return {
    ...(issuer === undefined ? {} : { issuer }),
    authorizationEndpoint,
    tokenEndpoint,
    ...(revocationEndpoint === undefined ? {} : { revocationEndpoint }),
    ...client,
    ...(resource === undefined ? {} : { resource }),
    trustedHosts: [...options.network.trustedHosts],
    scopesSupported: Array.isArray(supported) ? supported.map(String) : undefined,
    advertisesIss: server['authorization_response_iss_parameter_supported'] === true,
  };
}

type Client = Pick<ServiceClient, 'clientId' | 'clientSecret' | 'auth'>;

async function findClient(
  upstream: OAuthUpstream,
  options: ServiceOptions,
  server: ServerMetadata,
): Promise<Client> {
  const { clientId, clientSecret, tokenAuth, registration } = upstream.credential;
  const methods = server['token_endpoint_auth_methods_supported'];
  if (clientId !== undefined && (registration ?? 'named') === 'named') {
    const auth = tokenAuth ?? (clientSecret === undefined ? 'none' : authIn(methods));
    if (clientSecret !== undefined) await requireKnownIssuer(upstream, options, server);
    return { clientId, auth };
  }
  const takesDocuments = server['client_id_metadata_document_supported'] === true;
  const { documentUrl } = options;
  if (
    registration === 'document' ||
    (registration === undefined && takesDocuments && documentUrl)
  ) {
    if (documentUrl !== undefined) return { clientId: documentUrl, auth: 'none' };
    throw new ServiceFault('services can fetch our metadata document only over https', {
      isPermanent: true,
    });
  }
  const endpoint = server['registration_endpoint'];
  if (typeof endpoint === 'string') return registeredClient(upstream, options, server, endpoint);
  throw new ServiceFault(
    'the authorization server registers no clients: register one there, and set clientId',
    { isPermanent: true },
  );
}

const issuerKey = (upstream: string) => `upstream-issuer:${upstream}`;

/** The secret of a client goes to the issuer that the MCP server named first, and to no other that it names later. */
async function requireKnownIssuer(
  { id, credential }: OAuthUpstream,
  { store }: ServiceOptions,
  server: ServerMetadata,
): Promise<void> {
  if (credential.issuer !== undefined || credential.tokenEndpoint !== undefined) return;
  const { clientId } = credential;
  const found = { clientId, issuer: String(server['issuer']) };
  const known = (await store.get<typeof found>(issuerKey(id)))?.value;
  if (known === undefined || known.clientId !== clientId)
    await store.update<typeof found>(issuerKey(id), () => ({ value: found, ttl: Infinity }));
  else if (!isSameService(known.issuer, found.issuer))
    throw new ServiceFault(
      'the MCP server names another authorization server than before: set issuer to the one that has this client',
      { isPermanent: true },
    );
}

function authIn(methods: unknown): 'basic' | 'post' {
  if (!Array.isArray(methods) || methods.includes('client_secret_basic')) return 'basic';
  return methods.includes('client_secret_post') ? 'post' : 'basic';
}

const AUTH: Record<string, ServiceClient['auth']> = {
  client_secret_basic: 'basic',
  client_secret_post: 'post',
  none: 'none',
};

type Registered = Client & { registeredFor: string };

const clientKey = (upstream: string) => `upstream-client:${upstream}`;

/** One registration for all people and processes, until the redirect URI or the server changes. What the answer says counts. */
async function registeredClient(
  upstream: OAuthUpstream,
  options: ServiceOptions,
  server: ServerMetadata,
  endpoint: string,
): Promise<Client> {
  const { store, redirectUri, productName } = options;
  const registeredFor = `${String(server['issuer'])} ${redirectUri}`;
  const known = (await store.get<Registered>(clientKey(upstream.id)))?.value;
  if (known?.registeredFor === registeredFor) return withoutPlace(known);
  const methods = server['token_endpoint_auth_methods_supported'];
  const asksNone = !Array.isArray(methods) || methods.includes('none');
  const { status, text } = await sendToService(endpoint, options.network, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({
      client_name: productName,
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: asksNone ? 'none' : `client_secret_${authIn(methods)}`,
    }),
  }).catch((cause: unknown) => {
    throw new ServiceFault('the authorization server does not answer to a registration', { cause });
  });
  const answer = membersOf(parsed(text));
  const { client_id: clientId, client_secret: clientSecret } = answer;
  if (status >= 300 || typeof clientId !== 'string')
    throw new ServiceFault(`the authorization server refused to register us (status ${status})`, {
      isPermanent: status >= 400 && status < 500,
      code: 'registration_refused',
    });
  const stated = AUTH[String(answer['token_endpoint_auth_method'])];
  const hasSecret = typeof clientSecret === 'string' && clientSecret !== '';
  // Some say `none`, issue a secret and want it.
  const auth = hasSecret && (stated === undefined || stated === 'none') ? authIn(methods) : stated;
  const client: Registered = {
    clientId,
    ...(hasSecret ? { clientSecret } : {}),
    auth: auth ?? 'none',
    registeredFor,
  };
  await store.update<Registered>(clientKey(upstream.id), () => ({ value: client, ttl: Infinity }));
  return withoutPlace(client);
}

function withoutPlace(registered: Registered): Client {
  const { registeredFor: _, ...client } = registered;
  return client;
}

/** Whether the client was registered dynamically: it is neither that of the settings nor our metadata document. */
export function isRegisteredClient(
  { authUrl }: Pick<Settings, 'authUrl'>,
  { clientId: named }: Pick<OAuthCredentialSettings, 'clientId'>,
  { clientId }: Pick<ServiceClient, 'clientId'>,
): boolean {
  return clientId !== named && clientId !== documentUrlOf({ authUrl });
}

/** After the service no longer knows the client, so that it is registered anew. Other clients are not changed. */
export async function forgetRegisteredClient(
  store: Store,
  upstream: string,
  clientId: string,
): Promise<void> {
  const known = (await store.get<Registered>(clientKey(upstream)))?.value;
  if (known?.clientId === clientId) await store.delete(clientKey(upstream));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Parameters that real services need (Google issues refresh tokens only with `access_type`). */
export function impliedParameters({
  authorizationEndpoint,
}: Pick<ServiceClient, 'authorizationEndpoint'>) {
  const isGoogle = new URL(authorizationEndpoint).hostname === 'accounts.google.com';
  return isGoogle ? { access_type: 'offline', prompt: 'consent' } : {};
}

/** openid-client's view of the service. `secret` is that of the settings for a client that they name. */
export function openidConfiguration(
  client: ServiceClient,
  secret: string | undefined,
  network: ServiceNetwork,
  onTokens?: (response: Response) => Promise<void>,
): openid.Configuration {
  const { issuer, authorizationEndpoint, tokenEndpoint, revocationEndpoint, clientId } = client;
  const authentication = {
    basic: openid.ClientSecretBasic(secret),
    post: openid.ClientSecretPost(secret),
    none: openid.None(),
  }[client.auth];
  const server: openid.ServerMetadata = {
    issuer: issuer ?? new URL(tokenEndpoint).origin,
    authorization_endpoint: authorizationEndpoint,
    token_endpoint: tokenEndpoint,
    ...(revocationEndpoint === undefined ? {} : { revocation_endpoint: revocationEndpoint }),
  };
  const config = new openid.Configuration(server, clientId, undefined, authentication);
  openid.allowInsecureRequests(config);
  config[openid.customFetch] = async (url, { method, headers, body }) => {
    const response = await sendToService(url, network, {
      method,
      headers,
      body: body === undefined || body === null ? undefined : String(body),
      timeoutSeconds: TOKEN_TIMEOUT_SECONDS,
    });
    // openid-client requests the address in its normal form.
    if (url !== new URL(tokenEndpoint).href)
      return new Response([204, 304].includes(response.status) ? null : response.text, {
        status: response.status,
        headers: response.headers,
      });
    const normalized = normalizedTokenAnswer(response);
    if (normalized.ok) await onTokens?.(normalized.clone());
    return normalized;
  };
  config.timeout = TOKEN_TIMEOUT_SECONDS + 5;
  return config;
}
