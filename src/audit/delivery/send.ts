// One attempt to deliver a batch.
import type { IncomingMessage } from 'node:http';
import { INTERNET, type Network, sendGuarded, sendUnguarded } from '../../http/guarded-request.ts';
import { tracedRequest } from '../../observability/tracing.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { ForwardProxy } from '../../settings/forward-proxy.ts';
import type { Answer } from './answer.ts';

export type DeliveryRequest = {
  headers: Readonly<Record<string, string>>;
  body: Uint8Array<ArrayBuffer>;
};

export type SendOptions = {
  forwardProxy?: ForwardProxy;
  /** Only tests replace it. */
  network?: Partial<Network>;
  signal: AbortSignal;
};

const MAX_ANSWER_BYTES = 64 * 1024;

/** Rejects if there is no answer before `signal` aborts. Never follows redirects. */
export function sendToReceiver(
  { kind, url, privateNetwork, headers }: DeliveryTarget,
  request: DeliveryRequest,
  { forwardProxy, network, signal }: SendOptions,
): Promise<Answer> {
  const message = {
    method: 'POST',
    headers: {
      ...headers,
      ...request.headers,
      'content-length': String(request.body.length),
    },
    body: request.body,
    signal,
  } as const;
  const way = { ...(forwardProxy ? { forwardProxy } : {}), ...network };
  return tracedRequest({ peer: 'audit-receiver', method: 'POST', url }, async () => {
    const response = await (privateNetwork
      ? sendUnguarded(url, way, message)
      : sendGuarded(url, { ...INTERNET, ...way }, message));
    return readAnswer(response, kind === 'otlp');
  });
}

/** The body of a success matters only if it is in `needsBody`: OTLP says there what was refused. */
async function readAnswer(response: IncomingMessage, needsBody: boolean): Promise<Answer> {
  const { statusCode: status = 0, headers } = response;
  const isSuccess = status >= 200 && status < 300;
  const chunks: Buffer[] = [];
  let received = 0;
  try {
    if (!isSuccess || needsBody)
      for await (const chunk of response as AsyncIterable<Buffer>) {
        chunks.push(chunk);
        received += chunk.length;
        if (received >= MAX_ANSWER_BYTES) break;
      }
  } catch (error) {
    // The status of a refusal suffices.
    if (isSuccess) throw error;
  } finally {
    response.destroy();
  }
  return { status, headers, body: Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES) };
}
