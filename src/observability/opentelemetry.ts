// Imported dynamically and only when traces are on. Changes nothing global.
import { randomUUID } from 'node:crypto';
import {
  type Link,
  type Span as OpenTelemetrySpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from 'pino';
import type { TraceSettings } from '../settings/traces.ts';
import { tlsFault } from '../tls-errors.ts';
import type { Span, SpanDescription, SpanLink, Traces } from './tracing.ts';

export type TraceOptions = {
  version: string;
  logger: Logger;
  /** Seconds since the epoch. */
  now: () => number;
};

const MIN_SECONDS_BETWEEN_WARNINGS = 60;
const MAX_CLOSE_MS = 2000;
const LIMITS = { attributeValueLengthLimit: 200, attributeCountLimit: 32, linkCountLimit: 8 };

export function openTraces(settings: TraceSettings, options: TraceOptions): Traces {
  const { version, logger, now } = options;
  const provider = new TracerProvider({
    resource: resourceOf(settings, version),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.ratio) }),
    spanLimits: LIMITS,
    spanProcessors: [spanProcessor(settings, lossReporter(logger, now))],
  });
  const tracer = provider.getTracer('gatehouse', version);
  return {
    startRequest: (description) => startRequest(tracer, description),
    close: () => atMost(MAX_CLOSE_MS, provider.shutdown()),
  };
}

function resourceOf({ attributes }: TraceSettings, version: string) {
  const own = { 'service.version': version, 'service.instance.id': randomUUID(), ...attributes };
  return defaultResource().merge(resourceFromAttributes(own));
}

function startRequest(tracer: Tracer, description: SpanDescription): Span {
  let hasEnded = false;
  const span = wrap(tracer, startSpan(tracer, SpanKind.SERVER, description), () => hasEnded);
  const end = () => {
    hasEnded = true;
    span.end();
  };
  return { ...span, end };
}

function startSpan(
  tracer: Tracer,
  kind: SpanKind,
  { name, attributes, links = [] }: SpanDescription,
  parent = ROOT_CONTEXT,
): OpenTelemetrySpan {
  return tracer.startSpan(name, { kind, attributes, links: links.map(linkOf) }, parent);
}

function linkOf({ traceId, spanId }: SpanLink): Link {
  return { context: { traceId, spanId, traceFlags: TraceFlags.NONE, isRemote: true } };
}

function wrap(tracer: Tracer, span: OpenTelemetrySpan, hasRequestEnded: () => boolean): Span {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceId,
    spanId,
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    updateName: (name) => void span.updateName(name),
    setAttributes: (attributes) => void span.setAttributes(attributes),
    setError(type) {
      span.setAttribute('error.type', type);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
    end: () => span.end(),
    startChild(description) {
      if (hasRequestEnded()) return undefined;
      const parent = trace.setSpan(ROOT_CONTEXT, span);
      const child = startSpan(tracer, SpanKind.CLIENT, description, parent);
      return wrap(tracer, child, hasRequestEnded);
    },
  };
}

/** `reason` contains no text from the collector. */
type OnLost = (count: number, reason: string) => void;

function lossReporter(logger: Logger, now: () => number): OnLost {
  let [lost, warnedAt] = [0, -Infinity];
  return (count, reason) => {
    lost += count;
    if (now() - warnedAt < MIN_SECONDS_BETWEEN_WARNINGS) return;
    logger.warn({ reason: `${reason}; spans lost: ${lost}` }, 'traces are not delivered');
    [lost, warnedAt] = [0, now()];
  };
}

/** Exports spans in batches (OTLP over HTTP) from a bounded queue. Reports spans that do not fit, which BatchSpanProcessor drops silently. */
function spanProcessor(settings: TraceSettings, onLost: OnLost): SpanProcessor {
  const { queue, batch, delay } = settings;
  let [waiting, isClosed] = [0, false];
  const onExport = (count: number) => void (waiting -= count);
  const batches = new BatchSpanProcessor({
    exporter: reportingExporter(settings, onLost, onExport),
    maxQueueSize: queue,
    maxExportBatchSize: batch,
    scheduledDelayMillis: delay,
  });
  return {
    onStart: () => {},
    onEnd(span) {
      if (isClosed) return;
      if (waiting >= queue) return onLost(1, 'too many spans are waiting');
      waiting += 1;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown() {
      isClosed = true;
      return batches.shutdown();
    },
  };
}

/** Reports batches that fail, which the OTLP exporter writes only to its own log. */
function reportingExporter(
  { url, headers, timeout, queue, batch }: TraceSettings,
  onLost: OnLost,
  onExport: (count: number) => void,
): SpanExporter {
  const exporter = new OTLPTraceExporter({
    url,
    headers,
    timeoutMillis: timeout,
    // Shutdown sends the whole queue at once.
    concurrencyLimit: Math.ceil(queue / batch) + 1,
  });
  return {
    export(spans, done) {
      onExport(spans.length);
      send(exporter, spans, timeout, (reason) => {
        if (reason !== undefined) onLost(spans.length, reason);
        done({ code: 0 });
      });
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** Calls `done` once. The exporter's own timeout does not end a response that is sent slowly without end. */
function send(
  exporter: SpanExporter,
  spans: ReadableSpan[],
  timeout: number,
  done: (reason?: string) => void,
): void {
  let isDone = false;
  const settle = (reason?: string) => {
    if (isDone) return;
    isDone = true;
    clearTimeout(timer);
    done(reason);
  };
  const timer = setTimeout(settle, 2 * timeout, 'no answer in time').unref();
  exporter.export(spans, ({ code, error }) => settle(code === 0 ? undefined : reasonOf(error)));
}

/** Leaves out the message, in which a collector may repeat what it received. */
function reasonOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === 'number') return `it answered ${code}`;
  const fault = tlsFault(error);
  if (fault) return `it ${fault.what}: ${fault.remedy}`;
  return typeof code === 'string' ? code : 'no answer in time, or too busy';
}

async function atMost(milliseconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([work.catch(() => undefined), late]);
  clearTimeout(timer);
}
