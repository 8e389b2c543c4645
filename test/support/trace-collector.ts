// An OTLP trace collector (HTTP, JSON) that records everything it receives and can be made to fail.
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { until } from './until.ts';
import { listenOnLoopback } from './loopback-server.ts';

export type ReceivedSpan = {
  name: string;
  kind: 'server' | 'client' | 'other';
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  isError: boolean;
  /** Resource attributes. */
  service: Record<string, unknown>;
};

export type TraceCollector = {
  endpoint: string;
  spans: () => ReceivedSpan[];
  /** The raw bodies. */
  bodies: readonly string[];
  requests: readonly { path: string; headers: IncomingHttpHeaders }[];
  /** Handles every export from now on; undefined restores the normal response. */
  respondWith: (listener: RequestListener | undefined) => void;
  /** Waits for a span that matches. */
  find: (like: (span: ReceivedSpan) => boolean, what: string) => Promise<ReceivedSpan>;
  /** All spans of the trace. */
  traceOf: (span: ReceivedSpan) => ReceivedSpan[];
  stop: () => Promise<void>;
};

/** Settings that enable traces and export them here soon. */
export function traceSettings({
  endpoint,
}: Pick<TraceCollector, 'endpoint'>): Record<string, string> {
  return {
    GATEHOUSE_TRACES: 'true',
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_BSP_SCHEDULE_DELAY: '20',
  };
}

/** `port` 0 means any. */
export async function startTraceCollector(port = 0): Promise<TraceCollector> {
  const bodies: string[] = [];
  const received: ReceivedSpan[] = [];
  const requests: { path: string; headers: IncomingHttpHeaders }[] = [];
  let misbehave: RequestListener | undefined;
  const server = createServer(async (req, res) => {
    requests.push({ path: req.url ?? '', headers: req.headers });
    if (misbehave) return misbehave(req, res);
    const body = await text(req);
    if (req.headers['content-type'] !== 'application/json') return res.writeHead(415).end();
    bodies.push(body);
    received.push(...spansIn(JSON.parse(body)));
    return res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const { origin, stop } = await listenOnLoopback(server, port);
  return {
    endpoint: origin,
    spans: () => received,
    bodies,
    requests,
    respondWith: (listener) => void (misbehave = listener),
    find: (like, what) => until(what, () => received.find(like)),
    traceOf: ({ traceId }) => received.filter((span) => span.traceId === traceId),
    stop,
  };
}

type Pair = { key: string; value: Record<string, unknown> };
type Export = {
  resourceSpans: {
    resource: { attributes: Pair[] };
    scopeSpans: { spans: RawSpan[] }[];
  }[];
};
type RawSpan = {
  name: string;
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  attributes?: Pair[];
  links?: { traceId: string; spanId: string }[];
  status?: { code?: number };
};

const KINDS: Readonly<Record<number, ReceivedSpan['kind']>> = { 2: 'server', 3: 'client' };

function spansIn({ resourceSpans }: Export): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, kind, traceId, spanId, parentSpanId, attributes, links, status }) => ({
        name,
        kind: KINDS[kind] ?? 'other',
        traceId,
        spanId,
        parentSpanId: parentSpanId || undefined,
        attributes: valuesOf(attributes),
        links: (links ?? []).map((link) => ({ traceId: link.traceId, spanId: link.spanId })),
        isError: status?.code === 2,
        service: valuesOf(resource.attributes),
      })),
    ),
  );
}

function valuesOf(pairs: Pair[] = []): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map(({ key, value }) => [
      key,
      value['stringValue'] ?? Number(value['intValue'] ?? value['doubleValue']),
    ]),
  );
}
