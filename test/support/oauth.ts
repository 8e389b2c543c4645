// A small OAuth client that returns raw responses and can send invalid requests (RFC 6749, 7591, 7636, 8707, 9728).
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';

const texts = z.array(z.string());

const resourceMetadata = z.looseObject({
  resource: z.string(),
  authorization_servers: texts,
  scopes_supported: texts,
  resource_name: z.string(),
});

const serverMetadata = z.looseObject({
  issuer: z.string(),
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  /** Empty if registration is closed. */
  registration_endpoint: z.string().default(''),
  revocation_endpoint: z.string(),
  jwks_uri: z.string(),
});

const tokenBody = z.looseObject({
  access_token: z.string().optional(),
  token_type: z.string().optional(),
  expires_in: z.number().optional(),
  scope: z.string().optional(),
  refresh_token: z.string().optional(),
  error: z.string().optional(),
  error_description: z.string().optional(),
});

const registrationBody = z.looseObject({
  client_id: z.string().optional(),
  client_secret: z.string().optional(),
  redirect_uris: texts.optional(),
  grant_types: texts.optional(),
  response_types: texts.optional(),
  token_endpoint_auth_method: z.string().optional(),
  error: z.string().optional(),
});

export type JsonResponse<Body> = { status: number; headers: Headers; body: Body };
export type TokenResponse = JsonResponse<z.output<typeof tokenBody>>;
export type RegistrationResponse = JsonResponse<z.output<typeof registrationBody>>;
export type Server = z.output<typeof serverMetadata>;
export type Discovery = {
  challenge: string;
  resource: z.output<typeof resourceMetadata>;
  server: Server;
};

export type AuthMethod = 'none' | 'client_secret_basic' | 'client_secret_post';
export type Client = { id: string; secret?: string; method: AuthMethod; redirectUri: string };
export type Parameters = Record<string, string | string[] | undefined>;

/** Discovers challenge, protected resource metadata and authorization server metadata from the connect link. */
export async function discover(link: string): Promise<Discovery> {
  const refused = await fetch(link, { method: 'POST', body: '{}' });
  await refused.text();
  const challenge = refused.headers.get('www-authenticate') ?? '';
  const [, at] = /resource_metadata="([^"]+)"/.exec(challenge) ?? [];
  if (!at) throw new Error(`${refused.status} without resource_metadata: ${challenge}`);
  const resource = resourceMetadata.parse(await (await fetch(at)).json());
  const [issuer] = resource.authorization_servers;
  const metadata = await fetch(`${issuer}/.well-known/oauth-authorization-server`);
  return { challenge, resource, server: serverMetadata.parse(await metadata.json()) };
}

export async function register(server: Server, metadata: unknown): Promise<RegistrationResponse> {
  const response = await fetch(server.registration_endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(metadata),
  });
  return answer(response, registrationBody);
}

export type Authorization = { url: URL; verifier: string; state: string };

/** An authorization request with a new verifier and state. `more` adds, replaces or removes (undefined) parameters. */
export function authorizeUrl(
  server: Server,
  client: Client,
  more: Parameters = {},
  random: (size: number) => Buffer = randomBytes,
): Authorization {
  const verifier = random(32).toString('base64url');
  const state = random(16).toString('base64url');
  const url = new URL(server.authorization_endpoint);
  const parameters: Parameters = {
    response_type: 'code',
    client_id: client.id,
    redirect_uri: client.redirectUri,
    code_challenge: challengeOf(verifier),
    code_challenge_method: 'S256',
    state,
    ...more,
  };
  url.search = form(parameters).toString();
  return { url, verifier, state };
}

export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}

/** Redeems the code in `callback`. */
export function exchange(
  server: Server,
  client: Client,
  { callback, verifier }: { callback: URL; verifier: string },
  more: Parameters = {},
): Promise<TokenResponse> {
  return requestToken(server, client, {
    grant_type: 'authorization_code',
    code: callback.searchParams.get('code') ?? undefined,
    redirect_uri: client.redirectUri,
    code_verifier: verifier,
    ...more,
  });
}

export function refresh(
  server: Server,
  client: Client,
  refreshToken: string | undefined,
  more: Parameters = {},
): Promise<TokenResponse> {
  return requestToken(server, client, {
    grant_type: 'refresh_token',
    refresh_token: refreshToken,
    ...more,
  });
}

/** `more` are headers. */
export async function requestToken(
  server: Server,
  client: Client,
  parameters: Parameters,
  more: Record<string, string> = {},
): Promise<TokenResponse> {
  const { headers, body } = authenticated(client, parameters);
  const response = await fetch(server.token_endpoint, {
    method: 'POST',
    headers: { ...headers, ...more },
    body,
  });
  return answer(response, tokenBody);
}

/** Headers and body of a request with client authentication. */
export function authenticated(client: Client, parameters: Parameters) {
  const headers: Record<string, string> =
    client.method === 'client_secret_basic' ? { authorization: basic(client) } : {};
  return { headers, body: form({ ...credentials(client), ...parameters }) };
}

/** Like the SDKs, skips the percent-encoding of RFC 6749 section 2.3.1; our ids and secrets need none. */
function basic({ id, secret = '' }: Client): string {
  return `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
}

function credentials({ id, secret, method }: Client): Parameters {
  if (method === 'client_secret_basic') return {};
  return method === 'none' ? { client_id: id } : { client_id: id, client_secret: secret };
}

function form(parameters: Parameters): URLSearchParams {
  const body = new URLSearchParams();
  for (const [name, value = []] of Object.entries(parameters))
    for (const single of [value].flat()) body.append(name, single);
  return body;
}

async function answer<Schema extends z.ZodType>(
  response: Response,
  schema: Schema,
): Promise<JsonResponse<z.output<Schema>>> {
  const text = await response.text();
  const { status, headers } = response;
  try {
    return { status, headers, body: schema.parse(JSON.parse(text)) };
  } catch (cause) {
    throw new Error(`${status} ${response.url} said: ${text.slice(0, 400)}`, { cause });
  }
}
