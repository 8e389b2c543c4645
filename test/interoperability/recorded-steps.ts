// Plays a recorded client over HTTP, step by step, with a person in a scripted browser. A failing step throws.
import { randomUUID } from 'node:crypto';
import {
  OAuthClientInformationFullSchema,
  OAuthTokensSchema,
} from '@modelcontextprotocol/sdk/shared/auth.js';
import { expect } from 'chai';
import { SignJWT } from 'jose';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  type AuthorizeOptions,
} from '../support/browser.ts';
import {
  authenticated,
  authorizeUrl,
  type Client,
  type Parameters,
  type Server,
} from '../support/oauth.ts';
import type { System, SystemInfo } from '../support/system.ts';
import { discoverAs, type Found } from './recorded-discovery.ts';
import { CLIENT_KEY, FIXED_SECRET, KEY_ID } from './client-keys.ts';
import {
  documentOf,
  isKeyed,
  type PublishedDocument,
  type RecordedClient,
  type Registration,
} from './recorded-clients.ts';
import { type Send, wireOf } from './wire.ts';

/** The first time the person grants less than the link allows, so that a step-up is possible. */
const FIRST: AuthorizeOptions = { person: 'ada', level: 'operations' };

export type Tokens = { accessToken: string; refreshToken: string; scope: string[] };

type ConnectedSystem = Pick<SystemInfo, 'origins' | 'management' | 'managementKey'>;

/** A client's state between steps. */
export type ClientRun = {
  recorded: RecordedClient;
  system: ConnectedSystem;
  send: Send;
  browser: Browser;
  link: string;
  found: Found;
  /** Registers, or returns the metadata document's client. */
  identify: () => Promise<Client>;
  client?: Client;
  code?: { callback: URL; verifier: string };
  tokens?: Tokens;
};

type Way =
  | { registration: Registration }
  | { document: PublishedDocument }
  | { fixed: NonNullable<RecordedClient['preRegistered']> };

export async function discoverStep(
  system: System,
  recorded: RecordedClient,
  way: Way,
): Promise<ClientRun> {
  const { link } = await createConnector(system, { level: 'admin' });
  return discoverLink(system, recorded, way, link);
}

/** Discovers an existing connect link. */
export async function discoverLink(
  system: ConnectedSystem,
  recorded: RecordedClient,
  way: Way,
  link: string,
): Promise<ClientRun> {
  const send = wireOf(recorded);
  const found = await discoverAs(recorded, send, link);
  const identify = async (): Promise<Client> => {
    if ('registration' in way) return registerAs(send, found.server, way.registration);
    if ('fixed' in way) {
      const { id, redirectUri, secret } = way.fixed;
      return secret
        ? { id, redirectUri, method: 'client_secret_post', secret: FIXED_SECRET }
        : { id, redirectUri, method: 'none' };
    }
    const { url: id, redirectUri } = way.document;
    return { id, method: 'none', redirectUri };
  };
  return { recorded, system, send, link, found, identify, browser: openBrowser(system.origins) };
}

async function registerAs(
  send: Send,
  server: Server,
  { metadata, redirectUri, method }: Registration,
): Promise<Client> {
  const { status, headers, text, json } = await send(server.registration_endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(metadata),
  });
  expect(status, text).to.equal(201);
  expect(headers.get('content-type')).to.match(/^application\/json/);
  expect(headers.get('cache-control')).to.include('no-store');
  const stored = json() as Record<string, unknown>;
  for (const [name, value] of Object.entries(stored))
    expect(value, name).to.not.be.oneOf([null, '']);
  const information = OAuthClientInformationFullSchema.parse(stored);
  expect(metadata.redirect_uris).to.include.members(information.redirect_uris);
  expect(information.client_name).to.equal(metadata.client_name);
  expect(information.token_endpoint_auth_method).to.equal(method);
  expect(information.grant_types).to.include.members(['authorization_code', 'refresh_token']);
  expect(information.response_types).to.deep.equal(['code']);
  const { client_id: id, client_secret: secret } = information;
  expect(secret === undefined).to.equal(method === 'none');
  return { id, method, redirectUri, ...(secret === undefined ? {} : { secret }) };
}

/** Registers, or opens the first page of an authorization, which shows the document's name and host. */
export async function identifyStep(run: ClientRun): Promise<void> {
  run.client = await run.identify();
  if (!run.client.id.startsWith('https://')) return;
  const page = await openConsentPage(run, run.client);
  expect(isConsentPage(page), describePage(page)).to.equal(true);
  expect(page.html).to.include(new URL(run.client.id).host);
  const name = String(documentOf(run.recorded)?.published.client_name);
  expect(page.html).to.include(name);
}

/** The first page of a new browser. */
export function openConsentPage(run: ClientRun, client: Client): Promise<Page> {
  const parameters = authorizationParameters(run);
  const { url } = authorizeUrl(run.found.server, client, parameters);
  return openBrowser(run.system.origins).openConsent(url, 'ada');
}

export async function authorizeStep(
  run: ClientRun,
  parameters = authorizationParameters(run),
  options = FIRST,
): Promise<void> {
  const { found, browser } = run;
  const client = requireClient(run);
  const { url, verifier, state } = authorizeUrl(found.server, client, parameters);
  const callback = await browser.authorize(url, options);
  const separator = client.redirectUri.includes('?') ? '&' : '?';
  expect(callback.href.startsWith(client.redirectUri + separator), callback.href).to.equal(true);
  expect(callback.searchParams.get('state')).to.equal(state);
  expect(callback.searchParams.get('iss')).to.equal(found.server.issuer);
  expect(callback.searchParams.get('code'), callback.search).to.be.a('string');
  run.code = { callback, verifier };
}

export async function tokenStep(run: ClientRun): Promise<void> {
  const { code, recorded } = run;
  if (!code) throw new Error('it has no code');
  const { redirectUri } = requireClient(run);
  run.tokens = await requestTokens(run, {
    grant_type: 'authorization_code',
    code: code.callback.searchParams.get('code') ?? '',
    redirect_uri: redirectUri,
    code_verifier: code.verifier,
    ...resourceParameter(run, recorded.authorization.resource),
  });
}

/** Parses the token response as the client does. Throws the error in it if it has no tokens. */
export async function requestTokens(run: ClientRun, parameters: Parameters): Promise<Tokens> {
  const { status, headers, text, json } = await askForTokens(run, parameters);
  expect(status, text).to.equal(200);
  expect(headers.get('content-type')).to.match(/^application\/json/);
  expect(headers.get('cache-control')).to.include('no-store');
  expect(Object.values(json() as object)).to.not.include(null);
  const { access_token, refresh_token, scope, token_type, expires_in } =
    OAuthTokensSchema.parse(json());
  expect(token_type).to.equal('Bearer');
  expect(expires_in).to.equal(3600);
  if (refresh_token === undefined) throw new Error('it got no refresh token');
  return {
    accessToken: access_token,
    refreshToken: refresh_token,
    scope: scope?.split(' ') ?? [],
  };
}

export async function askForTokens(run: ClientRun, parameters: Parameters) {
  const { send, found } = run;
  const assertion = isKeyed(run.recorded) ? await assertionOf(run) : {};
  const request = authenticated(requireClient(run), { ...parameters, ...assertion });
  return send(found.server.token_endpoint, { method: 'POST', ...request });
}

export function authorizationParameters(
  run: ClientRun,
  scope = run.recorded.authorization.scope,
): Parameters {
  const { prompt, resource, more } = run.recorded.authorization;
  return {
    scope: scopeFrom(run, scope),
    prompt,
    ...resourceParameter(run, resource),
    ...more,
  };
}

/** Undefined if the client sends no scope. `challenge` is that of the last response. */
export function scopeFrom(
  { found, tokens }: ClientRun,
  wanted: readonly string[],
  challenge = found.challenge,
): string | undefined {
  const sources = new Map([
    ['challenge', challenge],
    ['resource', found.resource],
    ['server', found.offered],
    ['granted', tokens?.scope ?? []],
  ]);
  const scopes = wanted.flatMap((name) => sources.get(name) ?? [name]);
  return scopes.length > 0 ? [...new Set(scopes)].join(' ') : undefined;
}

export function resourceParameter(
  { link }: ClientRun,
  form: RecordedClient['authorization']['resource'],
): Parameters {
  const forms = { once: link, twice: [link, link], 'with a slash': `${link}/`, no: undefined };
  return { resource: forms[form] };
}

export function requireClient({ client }: ClientRun): Client {
  if (!client) throw new Error('it did not make itself known');
  return client;
}

export function requireTokens({ tokens }: ClientRun): Tokens {
  if (!tokens) throw new Error('it has no tokens');
  return tokens;
}

export const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/** RFC 7523 section 2.2. */
async function assertionOf(run: ClientRun): Promise<Parameters> {
  const { id } = requireClient(run);
  const { privateKey } = await CLIENT_KEY;
  const assertion = await new SignJWT({ jti: randomUUID() })
    .setProtectedHeader({ alg: 'RS256', kid: KEY_ID })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(run.found.server.issuer)
    .setIssuedAt()
    .setExpirationTime('2m')
    .sign(privateKey);
  return { client_assertion: assertion, client_assertion_type: ASSERTION_TYPE };
}

/** Without an assertion, the refresh token is refused and stays valid. */
export async function expectKeyNeeded(run: ClientRun): Promise<void> {
  const { send, found, tokens } = run;
  const parameters = { grant_type: 'refresh_token', refresh_token: tokens?.refreshToken };
  const request = authenticated(requireClient(run), parameters);
  const { status, text } = await send(found.server.token_endpoint, { method: 'POST', ...request });
  expect([status, JSON.parse(text).error]).to.deep.equal([401, 'invalid_client']);
  expect((await askForTokens(run, parameters)).status).to.equal(200);
}
