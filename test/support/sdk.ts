// The official SDK clients, versions 1 and 2, from a connect link to tool calls; the person is the scripted browser.
import {
  Client as ClientV2,
  type DpopSession,
  type OAuthDiscoveryState as DiscoveryV2,
  StreamableHTTPClientTransport as TransportV2,
  UnauthorizedError as UnauthorizedV2,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import {
  type OAuthDiscoveryState as DiscoveryV1,
  UnauthorizedError as UnauthorizedV1,
} from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Browser, AuthorizeOptions } from './browser.ts';
import type { AuthMethod } from './oauth.ts';

export type SdkClient = {
  /** Resolves to the structured result of a tool. Rejects with the error of the SDK. */
  callTool(name: string, given?: Record<string, unknown>): Promise<unknown>;
  /** Completes the sign-in after a call has failed with `UnauthorizedError`; then call again. */
  finishSignIn(): Promise<void>;
  protocolVersion(): string | undefined;
  /** How often a person was asked to sign in. */
  signIns(): number;
  accessToken(): string | undefined;
  close(): Promise<void>;
};

export type SdkOptions = {
  browser: Pick<Browser, 'authorize'>;
  method: AuthMethod;
  authorizeOptions?: AuthorizeOptions;
  /** The URL of the client's metadata document; without one it registers. */
  clientMetadataUrl?: string;
  /** The DPoP key of version 2. */
  dpop?: DpopSession;
};

export type Sdk = {
  name: string;
  version: RegExp;
  connect: (link: string, options: SdkOptions) => Promise<SdkClient>;
};

const INFO = { name: 'sdk-flow', version: '1.0.0' };
export const REDIRECT_URL = 'http://127.0.0.1:7171/callback';

/** Resolves when the SDK is connected. */
export async function connectSdkV1(link: string, options: SdkOptions): Promise<SdkClient> {
  const person = createAuthProvider<DiscoveryV1>(options);
  const openTransport = () => new TransportV1(new URL(link), { authProvider: person.provider });
  const first = openTransport();
  await expectSignIn(() => new ClientV1(INFO).connect(first), UnauthorizedV1);
  await first.finishAuth(person.callback().searchParams.get('code') ?? '');
  const client = new ClientV1(INFO);
  const transport = openTransport();
  await client.connect(transport);
  return {
    ...person.facts,
    callTool: async (name, given = {}) =>
      (await client.callTool({ name, arguments: given })).structuredContent,
    finishSignIn: () => transport.finishAuth(person.callback().searchParams.get('code') ?? ''),
    protocolVersion: () => transport.protocolVersion,
    close: () => client.close(),
  };
}

/** Like `connectSdkV1`; `mode` selects the protocol revisions. */
export async function connectSdkV2(
  link: string,
  mode: VersionNegotiationMode,
  options: SdkOptions,
): Promise<SdkClient> {
  const person = createAuthProvider<DiscoveryV2>(options);
  const openClient = () => new ClientV2(INFO, { versionNegotiation: { mode } });
  const openTransport = () => new TransportV2(new URL(link), { authProvider: person.provider });
  const first = openTransport();
  await expectSignIn(() => openClient().connect(first), UnauthorizedV2);
  await first.finishAuth(person.callback().searchParams);
  const client = openClient();
  const transport = openTransport();
  await client.connect(transport);
  return {
    ...person.facts,
    callTool: async (name, given = {}) =>
      (await client.callTool({ name, arguments: given })).structuredContent,
    finishSignIn: () => transport.finishAuth(person.callback().searchParams),
    protocolVersion: () => client.getNegotiatedProtocolVersion(),
    close: () => client.close(),
  };
}

/** Every version in every mode. */
export const SDKS: readonly Sdk[] = [
  { name: 'SDK v1', version: /^2025-/, connect: connectSdkV1 },
  {
    name: 'SDK v2, 2025 revisions',
    version: /^2025-/,
    connect: (link, options) => connectSdkV2(link, 'legacy', options),
  },
  {
    name: 'SDK v2, revision 2026-07-28',
    version: /^2026-07-28$/,
    connect: (link, options) => connectSdkV2(link, { pin: '2026-07-28' }, options),
  },
  {
    name: 'SDK v2, automatic',
    version: /^2026-07-28$/,
    connect: (link, options) => connectSdkV2(link, 'auto', options),
  },
];

async function expectSignIn(
  connect: () => Promise<void>,
  Unauthorized: new () => Error,
): Promise<void> {
  try {
    await connect();
  } catch (error) {
    if (error instanceof Unauthorized) return;
    throw error;
  }
  throw new Error('connected without anybody signing in');
}

type Tokens = { access_token: string; token_type: string; refresh_token?: string };
type Information = { client_id: string; client_secret?: string };

/** The OAuth client provider that both versions require, in memory. */
function createAuthProvider<Discovery>(options: SdkOptions) {
  const { browser, method, authorizeOptions, clientMetadataUrl, dpop } = options;
  let information: Information | undefined;
  let tokens: Tokens | undefined;
  let discovery: Discovery | undefined;
  let verifier = '';
  let callback: URL | undefined;
  let signIns = 0;
  const provider = {
    ...(clientMetadataUrl === undefined ? {} : { clientMetadataUrl }),
    ...(dpop === undefined ? {} : { dpop: () => dpop }),
    redirectUrl: REDIRECT_URL,
    clientMetadata: {
      client_name: 'SDK flow',
      redirect_uris: [REDIRECT_URL],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: method,
    },
    clientInformation: () => information,
    saveClientInformation: (given: Information) => void (information = given),
    tokens: () => tokens,
    saveTokens: (given: Tokens) => void (tokens = given),
    saveCodeVerifier: (given: string) => void (verifier = given),
    codeVerifier: () => verifier,
    saveDiscoveryState: (given: Discovery) => void (discovery = given),
    discoveryState: () => discovery,
    /** Deletes invalid credentials; otherwise the SDK would present them again. */
    invalidateCredentials: (which: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery') => {
      if (which === 'all' || which === 'client') information = undefined;
      if (which === 'all' || which === 'tokens') tokens = undefined;
      if (which === 'all' || which === 'discovery') discovery = undefined;
    },
    redirectToAuthorization: async (url: URL) => {
      signIns += 1;
      callback = await browser.authorize(url, authorizeOptions);
    },
  };
  return {
    provider,
    callback: () => {
      if (!callback) throw new Error('the SDK asked nobody to sign in');
      return callback;
    },
    facts: { signIns: () => signIns, accessToken: () => tokens?.access_token },
  };
}
