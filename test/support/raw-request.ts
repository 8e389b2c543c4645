// One HTTP request exactly as given, for what `fetch` normalizes: paths, Host, bodies without a length.
import { once } from 'node:events';
import { request, type IncomingHttpHeaders } from 'node:http';

export type RawResponse = { status: number; headers: IncomingHttpHeaders; body: string };

export type RawRequest = {
  method?: string;
  /** Sent without normalization. */
  path?: string;
  headers?: Record<string, string | string[]>;
  /** Sent chunk by chunk, without Content-Length. */
  chunks?: string[] | AsyncIterable<string>;
  signal?: AbortSignal;
};

/** `base` is the address to connect to, on loopback. */
export async function rawRequest(base: string, options: RawRequest = {}): Promise<RawResponse> {
  const { hostname, port } = new URL(base);
  const { method = 'GET', path = '/', headers = {}, chunks = [], signal } = options;
  const framing =
    !Array.isArray(chunks) || chunks.length > 0 ? { 'transfer-encoding': 'chunked' } : {};
  const sent = request({
    host: hostname,
    port,
    method,
    path,
    headers: { ...headers, ...framing },
    agent: false,
    ...(signal ? { signal } : {}),
  });
  // A server that refuses early closes while we are still writing; its response is read anyway.
  sent.on('error', () => {});
  const answered = once(sent, 'response');
  for await (const chunk of chunks) sent.write(chunk);
  sent.end();
  const [response] = await answered;
  response.setEncoding('utf8');
  let body = '';
  for await (const text of response) body += text;
  return { status: response.statusCode, headers: response.headers, body };
}
