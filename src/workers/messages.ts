// What the supervisor and its workers say to each other.
import type { MetricReport } from '../observability/metric-reports.ts';

export type FromWorker =
  /** Its listeners accept requests. */
  | { type: 'ready' }
  /** It was asked to stop, and accepts requests for so many seconds. */
  | { type: 'stopping'; seconds: number }
  /** Asks for the metrics of all workers. */
  | { type: 'gather'; id: number }
  /** Its metrics: asked for, or (without `id`) the last ones. */
  | { type: 'report'; id?: number; report: MetricReport };

export type ToWorker =
  /** All workers run: print the addresses. */
  | { type: 'announce' }
  | { type: 'report'; id: number }
  /** `text` is in the Prometheus text format. */
  | { type: 'gathered'; id: number; text: string }
  /** End, at once with `drain` false. */
  | { type: 'stop'; drain: boolean }
  /** Another worker has taken over: end when no connection is left. */
  | { type: 'leave' };
