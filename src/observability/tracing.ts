// Spans without a dependency on OpenTelemetry, which opentelemetry.ts loads only when traces are on.
import { AsyncLocalStorage } from 'node:async_hooks';

/** Values come from closed lists or from the settings: no ids, keys, personal data or text from a request. */
export type SpanAttributes = Readonly<Record<string, string | number>>;

/** Identifies a span of another system (W3C Trace Context), in hexadecimal digits. */
export type SpanLink = { traceId: string; spanId: string };

export type SpanDescription = {
  name: string;
  attributes: SpanAttributes;
  links?: readonly SpanLink[];
};

export type Span = SpanLink & {
  /** The header to send with a request made within this span (W3C Trace Context section 3.2). */
  traceparent: string;
  updateName(name: string): void;
  setAttributes(attributes: SpanAttributes): void;
  /** `type` is a word for the kind of error, never a message. */
  setError(type: string): void;
  end(): void;
  /** Starts a child span of kind `client`. Returns undefined after the request has ended. */
  startChild(description: SpanDescription): Span | undefined;
};

export type Traces = {
  /** Starts the span of a request: kind `server`, the root of a new trace. */
  startRequest(description: SpanDescription): Span;
  /** Exports the remaining spans within two seconds. Never rejects. */
  close(): Promise<void>;
};

const activeSpan = new AsyncLocalStorage<Span>();

export function withActiveSpan<T>(span: Span, work: () => T): T {
  return activeSpan.run(span, work);
}

type Work<T> = (span: Span | undefined) => Promise<T>;

/** Runs `work` in a child of the active span, or without a span if none is active. `isError` says which errors mark the span as failed. */
export async function traced<T>(
  description: () => SpanDescription,
  work: Work<T>,
  isError: (error: unknown) => boolean = () => true,
): Promise<T> {
  const span = activeSpan.getStore()?.startChild(description());
  if (!span) return work(undefined);
  try {
    return await activeSpan.run(span, () => work(span));
  } catch (error) {
    if (isError(error)) span.setError(error instanceof Error ? error.name : 'unknown');
    throw error;
  } finally {
    span.end();
  }
}

export type OutgoingRequest = {
  peer:
    | 'audit-receiver'
    | 'authorization-server'
    | 'client-keys'
    | 'identity-provider'
    | 'metadata-document'
    | 'upstream'
    | 'upstream-service';
  method: string;
  /** Its origin becomes an attribute. Left out if a client chose it. */
  url?: string;
  links?: readonly SpanLink[];
};

/** Runs an HTTP request in a span with the attributes of OpenTelemetry's HTTP client conventions. */
export function tracedRequest<Response>(
  request: OutgoingRequest,
  send: Work<Response>,
  statusOf?: (response: Response) => number,
): Promise<Response> {
  return traced(
    () => describeRequest(request),
    async (span) => {
      const response = await send(span);
      const status = span && statusOf?.(response);
      if (status === undefined) return response;
      span?.setAttributes({ 'http.response.status_code': status });
      if (status >= 400) span?.setError(String(status));
      return response;
    },
  );
}

function describeRequest({ peer, method, url, links = [] }: OutgoingRequest) {
  return {
    name: `${method} ${peer}`,
    attributes: {
      'http.request.method': method,
      'gatehouse.peer': peer,
      ...(url === undefined ? {} : serverAttributes(url)),
    },
    links,
  };
}

/** The scheme, host and port of a URL. */
export function serverAttributes(url: string) {
  const { protocol, hostname, port } = new URL(url);
  return {
    'url.scheme': protocol.slice(0, -1),
    'server.address': hostname,
    'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
  };
}

const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const MAX_TRACEPARENT_LENGTH = 200;

/** Parses `traceparent` (W3C Trace Context section 3.2). Any client can send it, so it is only linked. Returns no link if it is malformed. */
export function parseTraceparent(traceparent: unknown): SpanLink[] {
  if (typeof traceparent !== 'string' || traceparent.length > MAX_TRACEPARENT_LENGTH) return [];
  const [, version, traceId, spanId, more] = TRACEPARENT.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined) return [];
  // Only versions after 00 may have more fields.
  return version === '00' && more !== undefined ? [] : [{ traceId, spanId }];
}
