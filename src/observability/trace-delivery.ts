// Spans on their way to a collector (OTLP over HTTP): in batches, a limited number of them, and given up when it is away or slow.
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace';
import type { TraceSettings } from '../settings/traces.ts';

/** Told how many spans were lost, and why in a few words. */
export type OnLost = (count: number, reason: string) => void;

export function deliveryOf(settings: TraceSettings, onLost: OnLost): SpanProcessor {
  const { queue, batch, delay } = settings;
  let [waiting, isClosed] = [0, false];
  const taken = (count: number) => void (waiting -= count);
  const batches = new BatchSpanProcessor({
    exporter: observed(settings, onLost, taken),
    maxQueueSize: queue,
    maxExportBatchSize: batch,
    scheduledDelayMillis: delay,
  });
  return {
    onStart: () => {},
    onEnd(span) {
      if (isClosed) return;
      // The batches drop it without a word.
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

/** Says when a batch is lost, which the exporter tells nobody but a log of its own. */
function observed(
  { url, headers, timeout, queue, batch }: TraceSettings,
  onLost: OnLost,
  taken: (count: number) => void,
): SpanExporter {
  const exporter = new OTLPTraceExporter({
    url,
    headers,
    timeoutMillis: timeout,
    // As many as the queue has: at the end all of it is sent at once.
    concurrencyLimit: Math.ceil(queue / batch) + 1,
  });
  return {
    export(spans, done) {
      taken(spans.length);
      send(exporter, spans, timeout, (reason) => {
        if (reason !== undefined) onLost(spans.length, reason);
        done({ code: 0 });
      });
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** Calls `done` once. The exporter's own time limit is for silence: a collector that goes on answering would hold it up for ever. */
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

/** Never the message: a collector may repeat in it what it was sent. */
function reasonOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === 'number') return `it answered ${code}`;
  return typeof code === 'string' ? code : 'no answer in time, or too busy';
}
