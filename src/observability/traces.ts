// Traces by OpenTelemetry. Loaded only where they are on: nothing else may import this file but its types, and nothing global is changed.
import { randomUUID } from 'node:crypto';
import {
  type Link,
  type Span as OpenSpan,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from '@opentelemetry/api';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from 'pino';
import type { TraceSettings } from '../settings/traces.ts';
import type { Span, SpanDescription, SpanLink, Traces } from './spans.ts';
import { deliveryOf, type OnLost } from './trace-delivery.ts';

export type TraceOptions = {
  version: string;
  logger: Logger;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Seconds: a collector that is away is worth a line now and then. */
const BETWEEN_WARNINGS = 60;
/** Milliseconds. */
const LAST_DELIVERY = 2000;
const LIMITS = { attributeValueLengthLimit: 200, attributeCountLimit: 32, linkCountLimit: 8 };

export function openTraces(settings: TraceSettings, options: TraceOptions): Traces {
  const { version, logger, now } = options;
  const provider = new TracerProvider({
    resource: resourceOf(settings, version),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.ratio) }),
    spanLimits: LIMITS,
    spanProcessors: [deliveryOf(settings, warnOfLosses(logger, now))],
  });
  const tracer = provider.getTracer('gatehouse', version);
  return {
    begin: (description) => beginRequest(tracer, description),
    close: () => atMost(LAST_DELIVERY, provider.shutdown()),
  };
}

function resourceOf({ attributes }: TraceSettings, version: string) {
  const own = { 'service.version': version, 'service.instance.id': randomUUID(), ...attributes };
  return defaultResource().merge(resourceFromAttributes(own));
}

function beginRequest(tracer: Tracer, description: SpanDescription): Span {
  let isOver = false;
  const span = spanOf(tracer, start(tracer, SpanKind.SERVER, description), () => isOver);
  const end = () => {
    isOver = true;
    span.end();
  };
  return { ...span, end };
}

function start(
  tracer: Tracer,
  kind: SpanKind,
  { name, attributes, links = [] }: SpanDescription,
  parent = ROOT_CONTEXT,
): OpenSpan {
  return tracer.startSpan(name, { kind, attributes, links: links.map(linkOf) }, parent);
}

function linkOf({ traceId, spanId }: SpanLink): Link {
  return { context: { traceId, spanId, traceFlags: TraceFlags.NONE, isRemote: true } };
}

function spanOf(tracer: Tracer, open: OpenSpan, isOver: () => boolean): Span {
  const { traceId, spanId, traceFlags } = open.spanContext();
  return {
    traceId,
    spanId,
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    rename: (name) => void open.updateName(name),
    set: (attributes) => void open.setAttributes(attributes),
    fail(type) {
      open.setAttribute('error.type', type);
      open.setStatus({ code: SpanStatusCode.ERROR });
    },
    end: () => open.end(),
    begin(description) {
      if (isOver()) return undefined;
      const parent = trace.setSpan(ROOT_CONTEXT, open);
      return spanOf(tracer, start(tracer, SpanKind.CLIENT, description, parent), isOver);
    },
  };
}

function warnOfLosses(logger: Logger, now: () => number): OnLost {
  let [lost, warnedAt] = [0, -Infinity];
  return (count, reason) => {
    lost += count;
    if (now() - warnedAt < BETWEEN_WARNINGS) return;
    logger.warn({ reason: `${reason}; spans lost: ${lost}` }, 'traces are not delivered');
    [lost, warnedAt] = [0, now()];
  };
}

async function atMost(milliseconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([work.catch(() => undefined), late]);
  clearTimeout(timer);
}
