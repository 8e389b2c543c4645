// The connections to the upstream, and the requests that are sent on them.
import { type Dispatcher, Pool, ProxyAgent } from 'undici';
import { type Span, type SpanLink, tracedRequest } from '../../observability/tracing.ts';
import { type ForwardProxy, proxyFor } from '../../settings/forward-proxy.ts';
import type { Hold } from '../held-bytes.ts';
import { type ExchangeOptions, startExchange, type UpstreamResponse } from './exchange.ts';
import type { Lifetime } from './lifetime.ts';

export type Connections = ReturnType<typeof openConnections>;

export function openConnections(url: string, forwardProxy: ForwardProxy) {
  const uri = proxyFor(url, forwardProxy);
  const open = (): Dispatcher =>
    uri === undefined
      ? new Pool(new URL(url).origin, { allowH2: false })
      : new ProxyAgent({ uri, allowH2: false });
  let pool = open();
  return {
    current: () => pool,
    /** Closes the connections: idle ones at once, others after their present exchange. */
    renew() {
      void pool.close();
      pool = open();
    },
    destroy: () => pool.destroy(),
  };
}

export type OutboundRequest = {
  readonly method: Dispatcher.HttpMethod;
  /** With another token when it is sent again (`sendWithCredential`). */
  headers: Record<string, string>;
  /** Serializes the messages with our trace context, if traces are on. Removed when the request is sent, because a call may take long. */
  body?: ((traceparent: string | undefined) => string) | undefined;
  /** The client's trace contexts. */
  readonly links: readonly SpanLink[];
  readonly hold: Hold;
};

export type Send = (
  request: OutboundRequest,
  options: ExchangeOptions,
  lifetime: Lifetime,
) => Promise<UpstreamResponse>;

/** With traces on, sends in a span whose context the upstream gets. */
export function senderTo(url: string, connections: Connections, isTraced: boolean): Send {
  const { origin, pathname, search } = new URL(url);
  const path = pathname + search;
  const send = (
    request: OutboundRequest,
    options: ExchangeOptions,
    lifetime: Lifetime,
    span?: Span,
  ) => {
    const { method, headers } = request;
    const exchange = startExchange(
      connections.current(),
      {
        headersTimeout: 0,
        bodyTimeout: 0,
        origin,
        path,
        method,
        headers: span ? { ...headers, traceparent: span.traceparent } : headers,
        body: takeBody(request, span?.traceparent),
      },
      options,
    );
    lifetime.onAbort(exchange);
    return exchange.response;
  };
  if (!isTraced) return send;
  return (request, options, lifetime) =>
    tracedRequest(
      { peer: 'upstream', method: request.method, url, links: request.links },
      (span) => send(request, options, lifetime, span),
      ({ status }) => status,
    );
}

/** From now on, only the text is held. */
function takeBody(request: OutboundRequest, traceparent: string | undefined): string | null {
  const text = request.body?.(traceparent) ?? null;
  request.body = undefined;
  request.hold.reduce(text?.length ?? 0);
  return text;
}
