// Whether people can connect their own accounts at the operator's MCP servers: tries discovery, our client and the scopes of each service.
import * as openid from 'openid-client';
import { type ExchangeUpstream, sendExchange } from '../credentials/exchange.ts';
import { redirectUri } from '../credentials/page-address.ts';
import {
  findServer,
  type FoundServer,
  type OAuthUpstream,
  openidConfiguration,
  ServiceFault,
  serviceOptions,
} from '../credentials/service.ts';
import { type ServiceNetwork, sendToService } from '../credentials/service-fetch.ts';
import { exchangeProvider } from '../settings/credentials.ts';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { openDiscovery } from '../sign-in/discovery.ts';
import { identityProviderSettings } from '../sign-in/provider.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { findingAbout, type Findings } from './report.ts';

export async function checkCredentials({ settings }: ConfiguredDeployment): Promise<Findings> {
  const { roles, upstreams } = settings;
  const isUsed = roles.includes('authorization-server') || roles.includes('resource-server');
  if (!isUsed) return upstreams.map(secretFinding);
  return Promise.all(upstreams.map((upstream) => checkCredential(settings, upstream)));
}

/** Of a process that only ends credentials. */
function secretFinding({ credential, setting }: Upstream): Findings {
  if (!credential || credential.kind === 'key' || !credential.lacksSecret) return undefined;
  return findingAbout('credential', `${setting}.credential.clientSecret`).warning({
    what: 'this process lacks the secret of our client at the service',
    why: 'credentials that end are deleted, but their service is not asked to revoke them',
    remedy: 'give the processes with the role management this secret too',
  });
}

async function checkCredential(settings: Settings, upstream: Upstream): Promise<Findings> {
  const { credential, setting } = upstream;
  if (credential?.kind === 'exchange') return checkExchange(settings, { ...upstream, credential });
  if (credential?.kind !== 'oauth') return undefined;
  const finding = findingAbout('credential', `${setting}.credential`);
  const oauth: OAuthUpstream = { ...upstream, credential };
  const { network } = serviceOptions(settings, NO_STORE, upstream);
  try {
    const found = await findServer(oauth, network);
    const client = await checkClient(settings, oauth, { found, network });
    return [
      client ??
        finding.ok(`people can connect accounts; the redirect URI is ${redirectUri(settings)}`),
      scopesFinding(oauth, found),
      issFinding(settings, oauth, found),
    ];
  } catch (error) {
    if (!(error instanceof ServiceFault)) throw error;
    return finding.problem({
      what: error.message,
      why: 'nobody can connect an account, so calls of people are refused',
      remedy: `check that this machine reaches the service, and set ${setting}.credential.issuer, or its endpoints, if the MCP server does not name it`,
    });
  }
}

/** The provider refuses every exchange of this client, whatever its token. */
const EXCHANGE_REFUSED = [
  'invalid_client',
  'unauthorized_client',
  'unsupported_grant_type',
  'access_denied',
];

/** Exchanges a token that does not exist. */
async function checkExchange(settings: Settings, upstream: ExchangeUpstream): Promise<Findings> {
  const { credential, setting } = upstream;
  const finding = findingAbout('credential', `${setting}.credential`);
  const provider = exchangeProvider(identityProviderSettings(settings), credential);
  if (!provider) return undefined;
  const discovery = openDiscovery(provider);
  try {
    await sendExchange(settings, upstream, { provider, discovery, token: 'doctor' });
  } catch (error) {
    // The check of the identity provider says whether it answers.
    if (!(error instanceof openid.ResponseBodyError)) return undefined;
    if (EXCHANGE_REFUSED.includes(error.error))
      return finding.problem({
        what: `the identity provider refuses token exchanges of our client (${error.error})`,
        why: 'calls of people are refused',
        remedy: `allow the token exchange for the client there (src/credentials/README.md), and compare clientId and secret of ${setting}.credential or of the identity provider`,
      });
  }
  return finding.ok('the identity provider takes token exchanges of our client');
}

/** Doctor opens no store. */
const NO_STORE = {} as Parameters<typeof serviceOptions>[1];

type Tried = { found: FoundServer; network: ServiceNetwork };

/** Undefined if nothing is wrong. */
async function checkClient(
  settings: Settings,
  upstream: OAuthUpstream,
  { found: { server }, network }: Tried,
): Promise<Findings> {
  const { credential, setting } = upstream;
  const finding = findingAbout('credential', `${setting}.credential`);
  const { clientId, registration } = credential;
  const register = `register a client there with the redirect URI ${redirectUri(settings)}, and set ${setting}.credential.clientId`;
  if (clientId !== undefined && (registration ?? 'named') === 'named') {
    const code = await tryClient(upstream, clientId, {
      found: { server, resource: undefined },
      network,
    });
    if (code !== 'invalid_client' && code !== 'unauthorized_client') return undefined;
    return finding.problem({
      what: `the service refuses our client (${code})`,
      why: 'nobody can connect an account, and tokens cannot be renewed',
      remedy: `compare ${setting}.credential.clientId, its secret and tokenAuth with the service; the redirect URI is ${redirectUri(settings)}`,
    });
  }
  const takesDocuments = server['client_id_metadata_document_supported'] === true;
  const isPublic = settings.authUrl.startsWith('https:');
  if (registration === 'document' || (registration === undefined && takesDocuments && isPublic))
    return undefined;
  const endpoint = server['registration_endpoint'];
  const status =
    typeof endpoint === 'string' ? await tryRegistration(endpoint, network) : undefined;
  const isRefused = status !== undefined && status !== 400 && status >= 300;
  if (typeof endpoint === 'string' && !isRefused) return undefined;
  return finding.problem({
    what: isRefused
      ? `the service refuses registrations (HTTP ${status})`
      : 'the service registers no clients',
    why: 'nobody can connect an account',
    remedy: register,
  });
}

/** Exchanges a code that does not exist. Returns the error code of the service; undefined if there is none. */
async function tryClient(
  { credential }: OAuthUpstream,
  clientId: string,
  { found: { server }, network }: Tried,
): Promise<string | undefined> {
  const { clientSecret, tokenAuth } = credential;
  const methods = server['token_endpoint_auth_methods_supported'];
  const prefersPost =
    Array.isArray(methods) &&
    !methods.includes('client_secret_basic') &&
    methods.includes('client_secret_post');
  const service = {
    authorizationEndpoint: String(server['authorization_endpoint']),
    tokenEndpoint: String(server['token_endpoint']),
    clientId,
    auth: tokenAuth ?? (clientSecret === undefined ? 'none' : prefersPost ? 'post' : 'basic'),
  } as const;
  try {
    const config = openidConfiguration(service, clientSecret, network);
    await openid.genericGrantRequest(config, 'authorization_code', { code: 'doctor' });
    return undefined;
  } catch (error) {
    return error instanceof openid.ResponseBodyError ? error.error : undefined;
  }
}

/** Without redirect URIs, so that nothing is registered. A service that registers clients answers 400. */
async function tryRegistration(
  endpoint: string,
  network: ServiceNetwork,
): Promise<number | undefined> {
  const answer = await sendToService(endpoint, network, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ redirect_uris: [] }),
  }).catch(() => undefined);
  return answer?.status;
}

function scopesFinding({ credential, setting }: OAuthUpstream, { server }: FoundServer): Findings {
  const supported = server['scopes_supported'];
  if (!Array.isArray(supported)) return undefined;
  const wanted = Array.isArray(credential.scopes)
    ? credential.scopes
    : Object.values(credential.scopes).flat();
  const unknown = [...new Set(wanted)].filter((scope) => !supported.includes(scope));
  if (unknown.length === 0) return undefined;
  return findingAbout('credential', `${setting}.credential.scopes`).warning({
    what: `the service does not list ${unknown.join(', ')}`,
    why: 'it may refuse people who connect an account',
    remedy: `compare the scopes with those that it lists: ${supported.map(String).join(', ')}`,
  });
}

/** With one redirect URI, only `iss` says which of several services answered (RFC 9207). */
function issFinding(
  { upstreams }: Settings,
  { setting }: OAuthUpstream,
  { server }: FoundServer,
): Findings {
  const isAlone = upstreams.filter(({ credential }) => credential?.kind === 'oauth').length < 2;
  if (isAlone || server['authorization_response_iss_parameter_supported'] === true)
    return undefined;
  return findingAbout('credential', `${setting}.credential`).note({
    what: 'the service does not announce iss in its responses',
    why: 'the service of another upstream, if it is hostile, could get a code of this one',
    remedy:
      'use a client with a secret there, and put only services behind one Gatehouse that you trust',
  });
}
