// Keys that people paste: what is taken off, and the first try at the upstream.
import type { CredentialHeader } from '../settings/credentials.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { isHeaderSafe } from './obtain.ts';
import { type ServiceNetwork, type ServiceResponse, sendToService } from './service-fetch.ts';

const SCHEME = /^(bearer|basic|token|apikey|api-key)(\s+|$)/i;

/** Without a header name and a scheme in front. Undefined if nothing is left that a header can carry. */
export function acceptedKey(
  given: string | undefined,
  { name }: CredentialHeader,
): string | undefined {
  const pasted = (given ?? '').trim().replace(/^["']|["']$/g, '');
  const colon = pasted.indexOf(':');
  const before = pasted.slice(0, Math.max(colon, 0)).trim().toLowerCase();
  const isHeader = before === name || before === 'authorization';
  let key = isHeader ? pasted.slice(colon + 1).trim() : pasted;
  while (SCHEME.test(key)) key = key.replace(SCHEME, '').trim();
  return isHeaderSafe(key) ? key : undefined;
}

const LIST_TOOLS = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });

/** `same_without`: the server answers the same to a request without a key, so that the answer says nothing about it. */
export type TriedKey = 'taken' | 'same_without' | 'refused' | 'unavailable';

/** Tries `tools/list` with the key. */
export async function tryKey(
  upstream: Upstream,
  key: string,
  network: ServiceNetwork,
): Promise<TriedKey> {
  const { name, prefix } = upstream.credential?.header ?? BEARER;
  const answer = await listTools(upstream, { [name]: prefix + key }, network);
  if (answer === undefined || answer.status >= 500) return 'unavailable';
  if (answer.status === 401 || answer.status === 403) return 'refused';
  // A server with sessions refuses a list before `initialize`, and not the key.
  const without = await listTools(upstream, {}, network);
  const isSame = answer.status === without?.status && answer.text === without.text;
  return isSame ? 'same_without' : 'taken';
}

const BEARER = { name: 'authorization', prefix: 'Bearer ' };

/** Undefined if there is no answer. */
function listTools(
  { url, headers: operators, credential }: Upstream,
  credentials: Record<string, string>,
  network: ServiceNetwork,
): Promise<ServiceResponse | undefined> {
  const { name: own } = credential?.header ?? BEARER;
  const others = Object.entries(operators).filter(
    ([name]) => name !== own && name !== 'authorization',
  );
  return sendToService(url, network, {
    method: 'POST',
    headers: {
      ...Object.fromEntries(others),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...credentials,
    },
    body: LIST_TOOLS,
  }).catch(() => undefined);
}
