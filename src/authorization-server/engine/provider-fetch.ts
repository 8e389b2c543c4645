// How the identity provider is asked: no redirects, and answers of at most a megabyte, however it answers.
import { tracedRequest } from '../../observability/tracing.ts';

const MAX_BYTES = 1024 * 1024;

/** `fetch` as openid-client wants it. Rejects when the answer is too large; time is limited by the signal in `options`. */
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
    // As `fetch` itself fails: openid-client takes any other error for a token that cannot be trusted.
    if (received > MAX_BYTES) throw new TypeError('the identity provider answered too much');
    chunks.push(new Uint8Array(chunk));
  }
  return new Blob(chunks);
}
