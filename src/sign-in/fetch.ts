// Fetches from identity providers, without redirects and with a size limit.
import { readBytes } from '../http/body.ts';
import { tracedRequest } from '../observability/tracing.ts';

const MAX_BYTES = 1024 * 1024;

/** `fetch` for openid-client and jose. Rejects if the response is too large. The signal in `options` limits the time. */
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
  // A TypeError, as from `fetch`: openid-client reports any other error as an invalid token.
  const tooLarge = () => new TypeError(`the response is larger than ${MAX_BYTES} bytes`);
  const body = await readBytes(response.body, MAX_BYTES, tooLarge);
  return new Response(body, { status, statusText, headers });
}
