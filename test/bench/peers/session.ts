// Registration, authorization, codes, tokens and calls at one implementation (RFC 6749, 7591, 7636).
import { type Browser, openBrowser } from '../../support/browser.ts';
import { REDIRECT_URI } from '../../support/connection.ts';
import { call } from '../../support/mcp.ts';
import {
  authorizeUrl,
  type Client,
  exchange,
  type Parameters,
  refresh,
  register,
  type Server,
  type TokenResponse,
} from '../../support/oauth.ts';
import { serverMetadata } from '../client.ts';
import { TOOL_CALL } from '../tool-calls.ts';
import type { Implementation, Running } from './implementation.ts';

export type Session = { implementation: Implementation; running: Running; server: Server };

/** The code in the redirect to the client, if there is one. */
export type Code = { client: Client; link: string; callback: URL; verifier: string };

export type Outcome = { code?: Code; asked: boolean; departure?: URL };

export type Connection = {
  client: Client;
  link: string;
  accessToken: string;
  refreshToken: string;
};

export type Wishes = { client?: Client; browser?: Browser; link?: string; parameters?: Parameters };

export async function openSession(
  implementation: Implementation,
  running: Running,
): Promise<Session> {
  const server = serverMetadata.parse(await (await fetch(running.metadataUrl)).json());
  return { implementation, running, server };
}

export function newBrowser({ running }: Session): Browser {
  return openBrowser(running.origins);
}

/** A public client with a loopback redirect address, as most MCP clients are. */
export async function newClient({ server }: Session): Promise<Client> {
  const { status, body } = await register(server, {
    client_name: 'Comparison',
    redirect_uris: [REDIRECT_URI],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    // Some servers accept loopback addresses only from native clients.
    application_type: 'native',
  });
  if (!body.client_id) throw new Error(`registration: ${status} ${JSON.stringify(body)}`);
  return { id: body.client_id, method: 'none', redirectUri: REDIRECT_URI };
}

/** Approves everything; resolves to the final URL, which may be a page instead of a code. */
export async function authorize(session: Session, options: Wishes = {}): Promise<Outcome> {
  const { running, server } = session;
  const client = options.client ?? (await newClient(session));
  const link = options.link ?? running.links[0];
  const parameters = { resource: link, scope: running.scope, ...options.parameters };
  const { url, verifier } = authorizeUrl(server, client, parameters);
  const { step, asked } = await running.agree(options.browser ?? newBrowser(session), url);
  if (step.kind === 'page') return { asked };
  const code = { client, link, callback: step.url, verifier };
  return { asked, departure: step.url, ...(step.url.searchParams.has('code') ? { code } : {}) };
}

export async function obtainCode(session: Session, options: Wishes = {}): Promise<Code> {
  const { code, departure } = await authorize(session, options);
  if (!code) throw new Error(`no code, but ${departure?.href ?? 'a page'}`);
  return code;
}

export function redeem(
  { server }: Session,
  { client, link, callback, verifier }: Code,
  more: Parameters = {},
): Promise<TokenResponse> {
  return exchange(server, client, { callback, verifier }, { resource: link, ...more });
}

export async function connect(session: Session, options: Wishes = {}): Promise<Connection> {
  const code = await obtainCode(session, options);
  return connectionFrom(code, await redeem(session, code));
}

export function connectionFrom(
  { client, link }: Code,
  { status, body }: TokenResponse,
): Connection {
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  if (!accessToken || !refreshToken)
    throw new Error(`no tokens, but ${status} ${JSON.stringify(body)}`);
  return { client, link, accessToken, refreshToken };
}

/** Refreshes with the current token, unless `more` has another one. */
export function refreshOnce(
  { server }: Session,
  { client, link, refreshToken }: Connection,
  more: Parameters = {},
): Promise<TokenResponse> {
  return refresh(server, client, refreshToken, { resource: link, ...more });
}

export function isGranted({ status, body }: TokenResponse): boolean {
  return status === 200 && body.access_token !== undefined;
}

/** Throws for a server error, because a server that fails has refused nothing. */
export function isRefused(answer: TokenResponse): boolean {
  if (isGranted(answer) || [400, 401, 403].includes(answer.status)) return !isGranted(answer);
  throw new Error(`neither granted nor refused: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** The successful responses; invalid JSON counts as a failure. */
export async function grantedAmong(
  tries: readonly Promise<TokenResponse>[],
): Promise<TokenResponse[]> {
  const settled = await Promise.allSettled(tries);
  return settled
    .flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    .filter(isGranted);
}

/** The refresh token of a response that must be successful. */
export function requireRefreshToken({ status, body }: TokenResponse): string {
  if (status === 200 && body.refresh_token) return body.refresh_token;
  throw new Error(`no refresh token, but ${status} ${JSON.stringify(body)}`);
}

/** True if the tool call succeeded. */
export async function isAccepted(link: string, token: string): Promise<boolean> {
  const { status, text } = await call(link, token, TOOL_CALL);
  return status === 200 && text.includes('"structuredContent"');
}
