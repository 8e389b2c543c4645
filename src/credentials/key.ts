// Keys that people paste: what is taken off, and the first try at the upstream.
import type { CredentialHeader } from '../settings/credentials.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { isHeaderSafe } from './obtain.ts';
import { type ServiceNetwork, sendToService } from './service-fetch.ts';

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

/** Tries `tools/list` with the key. False if the server refuses it, undefined if it does not answer. */
export async function isKeyTaken(
  { url, headers: operators, credential }: Upstream,
  key: string,
  network: ServiceNetwork,
): Promise<boolean | undefined> {
  const header = credential?.header ?? { name: 'authorization', prefix: 'Bearer ' };
  const others = Object.entries(operators).filter(
    ([name]) => name !== header.name && name !== 'authorization',
  );
  try {
    const { status } = await sendToService(url, network, {
      method: 'POST',
      headers: {
        ...Object.fromEntries(others),
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        [header.name]: header.prefix + key,
      },
      body: LIST_TOOLS,
    });
    if (status === 401 || status === 403) return false;
    // A server with sessions refuses a list before `initialize`, and not the key.
    return status < 500 ? true : undefined;
  } catch {
    return undefined;
  }
}
