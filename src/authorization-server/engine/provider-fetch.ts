// Fetches from identity providers, without redirects and with a size limit.
import { tracedRequest } from '../../observability/tracing.ts';

const MAX_BYTES = 1024 * 1024;

/** `fetch` for openid-client. Rejects if the response is too large. The signal in `options` limits the time. */
export async function fetchFromProvider(
  url: string,
  options: { method?: string },
): Promise<Response> {
  const { method = 'GET' } = options;
  return tracedRequest(
    { peer: 'identity-provider', method, url },
    () => fetchWhole(url, options),
    ({ status }) => status,
  );
}

async function fetchWhole(url: string, options: object): Promise<Response> {
  const response = await fetch(url, { ...options, redirect: 'manual' });
  if (!response.body) return response;
  const { status, statusText, headers } = response;
  return new Response(await readLimited(response.body), { status, statusText, headers });
}

async function readLimited(body: AsyncIterable<Uint8Array>): Promise<Blob> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let received = 0;
  for await (const chunk of body) {
    received += chunk.length;
    // A TypeError, as from `fetch`: openid-client takes any other error for an invalid token.
    if (received > MAX_BYTES) throw new TypeError('the identity provider answered too much');
    chunks.push(new Uint8Array(chunk));
  }
  return new Blob(chunks);
}
