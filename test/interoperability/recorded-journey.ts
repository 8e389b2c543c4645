// Plays a recorded client over HTTP, step by step, with a person in a scripted browser. A failing step throws.
import {
  OAuthClientInformationFullSchema,
  OAuthTokensSchema,
} from '@modelcontextprotocol/sdk/shared/auth.js';
import { expect } from 'chai';
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
import type { System } from '../support/system.ts';
import { discoverAs, type Found } from './recorded-discovery.ts';
import {
  documentOf,
  type PublishedDocument,
  type RecordedClient,
  type Registration,
} from './recorded-clients.ts';
import { type Send, wireOf } from './wire.ts';

/** The first time the person grants less than the link allows, so that a step-up is possible. */
const FIRST: AuthorizeOptions = { person: 'ada', level: 'operations' };

export type Tokens = { accessToken: string; refreshToken: string; scope: string[] };

/** A client's state between steps. */
export type Journey = {
  recorded: RecordedClient;
  system: System;
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

type Way = { registration: Registration } | { document: PublishedDocument };

export async function discoverStep(
  system: System,
  recorded: RecordedClient,
  way: Way,
): Promise<Journey> {
  const { link } = await createConnector(system, { level: 'admin' });
  const send = wireOf(recorded);
  const found = await discoverAs(recorded, send, link);
  const identify = async (): Promise<Client> => {
    if ('registration' in way) return registerAs(send, found.server, way.registration);
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
export async function identifyStep(journey: Journey): Promise<void> {
  journey.client = await journey.identify();
  if (!journey.client.id.startsWith('https://')) return;
  const page = await openConsentPage(journey, journey.client);
  expect(isConsentPage(page), describePage(page)).to.equal(true);
  expect(page.html).to.include(new URL(journey.client.id).host);
  const name = String(documentOf(journey.recorded)?.published.client_name);
  expect(page.html).to.include(name);
}

/** The first page of a new browser. */
export function openConsentPage(journey: Journey, client: Client): Promise<Page> {
  const parameters = authorizationParameters(journey);
  const { url } = authorizeUrl(journey.found.server, client, parameters);
  return openBrowser(journey.system.origins).openConsent(url, 'ada');
}

export async function authorizeStep(
  journey: Journey,
  parameters = authorizationParameters(journey),
  wishes = FIRST,
): Promise<void> {
  const { found, browser } = journey;
  const client = requireClient(journey);
  const { url, verifier, state } = authorizeUrl(found.server, client, parameters);
  const callback = await browser.authorize(url, wishes);
  expect(callback.href.startsWith(`${client.redirectUri}?`), callback.href).to.equal(true);
  expect(callback.searchParams.get('state')).to.equal(state);
  expect(callback.searchParams.get('iss')).to.equal(found.server.issuer);
  expect(callback.searchParams.get('code'), callback.search).to.be.a('string');
  journey.code = { callback, verifier };
}

export async function tokenStep(journey: Journey): Promise<void> {
  const { code, recorded } = journey;
  if (!code) throw new Error('it has no code');
  const { redirectUri } = requireClient(journey);
  journey.tokens = await requestTokens(journey, {
    grant_type: 'authorization_code',
    code: code.callback.searchParams.get('code') ?? '',
    redirect_uri: redirectUri,
    code_verifier: code.verifier,
    ...resourceParameter(journey, recorded.authorization.resource),
  });
}

/** Parses the token response as the client does. Throws the error in it if it has no tokens. */
export async function requestTokens(journey: Journey, parameters: Parameters): Promise<Tokens> {
  const { status, headers, text, json } = await askForTokens(journey, parameters);
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

export function askForTokens(journey: Journey, parameters: Parameters) {
  const { send, found } = journey;
  const request = authenticated(requireClient(journey), parameters);
  return send(found.server.token_endpoint, { method: 'POST', ...request });
}

export function authorizationParameters(
  journey: Journey,
  scope = journey.recorded.authorization.scope,
): Parameters {
  const { prompt, resource, more } = journey.recorded.authorization;
  return {
    scope: scopeFrom(journey, scope),
    prompt,
    ...resourceParameter(journey, resource),
    ...more,
  };
}

/** Undefined if the client sends no scope. `challenge` is that of the last response. */
export function scopeFrom(
  { found, tokens }: Journey,
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
  { link }: Journey,
  form: RecordedClient['authorization']['resource'],
): Parameters {
  const forms = { once: link, twice: [link, link], 'with a slash': `${link}/`, no: undefined };
  return { resource: forms[form] };
}

export function requireClient({ client }: Journey): Client {
  if (!client) throw new Error('it did not make itself known');
  return client;
}

export function requireTokens({ tokens }: Journey): Tokens {
  if (!tokens) throw new Error('it has no tokens');
  return tokens;
}
