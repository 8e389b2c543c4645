// `fetch` for openid-client at services that upstreams and their documents name: guarded, bounded, and with token answers as real services
// write them, made into those of RFC 6749 section 5.
import type { IncomingMessage } from 'node:http';
import { readBytes } from '../http/body.ts';
import { INTERNET, type Network, sendGuarded, sendUnguarded } from '../http/guarded-request.ts';
import { isObject, membersOf } from '../json-values.ts';
import { tracedRequest } from '../observability/tracing.ts';
import type { ForwardProxy } from '../settings/forward-proxy.ts';

export type ServiceNetwork = {
  /** Hosts that the settings name. They may be anywhere, also in a private network. */
  trustedHosts: ReadonlySet<string>;
  forwardProxy: ForwardProxy;
  /** Only tests replace it. */
  network?: Partial<Network>;
};

export type ServiceRequest = {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | undefined;
  timeoutSeconds?: number;
};

export type ServiceResponse = { status: number; headers: Headers; text: string };

const MAX_BYTES = 1024 * 1024;
const TIMEOUT_SECONDS = 10;

/** Rejects if there is no whole answer in time. Redirects are not followed. Plain http only to hosts that the settings name. */
export function sendToService(
  url: string,
  { trustedHosts, forwardProxy, network }: ServiceNetwork,
  request: ServiceRequest = {},
): Promise<ServiceResponse> {
  const { hostname, protocol } = new URL(url);
  const { method = 'GET', headers = {}, body, timeoutSeconds = TIMEOUT_SECONDS } = request;
  const isTrusted = trustedHosts.has(hostname);
  const way = { forwardProxy, ...network };
  const bytes = body === undefined ? undefined : Buffer.from(body);
  const message = {
    method: method === 'POST' ? 'POST' : 'GET',
    headers: {
      ...headers,
      ...(bytes ? { 'content-length': String(bytes.length) } : {}),
    },
    ...(bytes ? { body: bytes } : {}),
    signal: AbortSignal.timeout(timeoutSeconds * 1000),
  } as const;
  return tracedRequest({ peer: 'upstream-service', method, url }, async () => {
    if (!isTrusted && protocol !== 'https:') throw new TypeError('the service is not https');
    const response = await (isTrusted
      ? sendUnguarded(url, way, message)
      : sendGuarded(url, { ...INTERNET, ...way }, message));
    return readResponse(response);
  });
}

async function readResponse(response: IncomingMessage): Promise<ServiceResponse> {
  try {
    const tooLarge = () => new TypeError(`the response is larger than ${MAX_BYTES} bytes`);
    const bytes = await readBytes(response, MAX_BYTES, tooLarge);
    const headers = new Headers();
    for (const [name, value] of Object.entries(response.headers))
      for (const each of [value ?? []].flat()) headers.append(name, each);
    return { status: response.statusCode ?? 0, headers, text: bytes.toString('utf8') };
  } finally {
    response.destroy();
  }
}

/** JSON or a form. Undefined if it is neither. */
export function membersOfAnswer(text: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    if (!/^[\w.%+-]+=[^<>{}]*$/.test(text.trim())) return undefined;
    return Object.fromEntries(new URLSearchParams(text.trim()));
  }
}

/**
 * Makes an answer of a token endpoint one of RFC 6749: an error with status 200 becomes 400, any `token_type` Bearer, `expires_in` a number,
 * scopes separated by spaces. Slack nests the token of the person.
 */
export function normalizedTokenAnswer({ status, headers, text }: ServiceResponse): Response {
  const found = membersOfAnswer(text);
  if (!found) return new Response(text, { status, headers });
  const nested = membersOf(found['authed_user']);
  const members = typeof found['access_token'] === 'string' ? found : { ...found, ...nested };
  const isToken = typeof members['access_token'] === 'string' && members['access_token'] !== '';
  const json = { 'content-type': 'application/json' };
  if (status >= 200 && status < 300 && isToken)
    return Response.json(tokenMembers(members), { status: 200, headers: json });
  const error = members['error'];
  if (typeof error !== 'string') return new Response(text, { status, headers });
  const refused = status >= 400 ? status : 400;
  return Response.json(errorMembers(members, error), { status: refused, headers: json });
}

function tokenMembers(members: Record<string, unknown>): Record<string, unknown> {
  const { access_token, refresh_token, scope } = members;
  const end = Number(members['expires_in']);
  const hasEnd = members['expires_in'] !== undefined && members['expires_in'] !== null;
  return {
    access_token,
    token_type: 'Bearer',
    ...(typeof refresh_token === 'string' && refresh_token !== '' ? { refresh_token } : {}),
    ...(hasEnd && Number.isFinite(end) && end >= 0 ? { expires_in: Math.floor(end) } : {}),
    ...(typeof scope === 'string'
      ? {
          scope: scope
            .split(/[\s,]+/)
            .filter(Boolean)
            .join(' '),
        }
      : {}),
    ...(Array.isArray(scope) ? { scope: scope.map(String).join(' ') } : {}),
    ...accountMembers(members),
  };
}

/** What may name the account. */
function accountMembers(members: Record<string, unknown>): Record<string, unknown> {
  const { id_token: idToken, workspace_name: workspace, owner } = members;
  return {
    ...(typeof idToken === 'string' ? { gatehouse_id_token: idToken } : {}),
    ...(typeof workspace === 'string' ? { workspace_name: workspace } : {}),
    ...(isObject(owner) ? { owner } : {}),
  };
}

function errorMembers(members: Record<string, unknown>, error: string): Record<string, unknown> {
  const { error_description, claims, suberror, error_uri: _ } = members;
  return {
    error,
    ...(typeof error_description === 'string' ? { error_description } : {}),
    ...(typeof claims === 'string' ? { claims } : {}),
    ...(typeof suberror === 'string' ? { suberror } : {}),
  };
}
