// The metrics of `gatehouse start --workers`: one set for all workers, and how the workers are.
import { Counter, Gauge, Registry } from 'prom-client';
import { type MetricReport, openMetricReports } from './metric-reports.ts';

/** `Worker` is a handle with an id that no earlier worker had. */
export type WorkerMetrics = {
  /** Asks these workers for their metrics. Resolves with those of all in the Prometheus text format, with the last known ones of a busy worker. */
  gather<Worker>(
    workers: readonly Worker[],
    ask: (worker: Worker, id: number) => void,
  ): Promise<string>;
  /** `id`: of the question, if there was one. */
  reported(worker: number, answer: { id?: number; report: MetricReport }): void;
  /** A worker ended by itself. */
  died(): void;
  ended(worker: number): void;
};

/** A collector waits for 10 s. */
const REPORT_MS = 1500;

export function openWorkerMetrics(count: number): WorkerMetrics {
  const registry = new Registry();
  const registers = [registry];
  new Gauge({ name: 'gatehouse_workers', help: 'Workers of the setting.', registers }).set(count);
  const deaths = new Counter({
    name: 'gatehouse_worker_deaths_total',
    help: 'Workers that ended by themselves.',
    registers,
  });
  const reports = openMetricReports();
  const waiting = new Map<number, () => void>();
  let questions = 0;
  return {
    async gather(workers, ask) {
      await Promise.all(
        workers.map(async (worker) => {
          const id = (questions += 1);
          const { promise, resolve } = Promise.withResolvers<void>();
          const timer = setTimeout(resolve, REPORT_MS);
          waiting.set(id, resolve);
          ask(worker, id);
          await promise;
          clearTimeout(timer);
          waiting.delete(id);
        }),
      );
      return reports.text(await registry.getMetricsAsJSON());
    },
    reported(worker, { id, report }) {
      reports.add(worker, report);
      if (id !== undefined) waiting.get(id)?.();
    },
    died: () => deaths.inc(),
    ended: reports.end,
  };
}
