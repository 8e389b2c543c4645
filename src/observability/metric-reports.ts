// The metrics of several processes as those of one.
import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client';

/** What a process measured since it started. */
export type MetricReport = readonly MetricObjectWithValues<MetricValue<string>>[];

export type MetricReports = {
  /** Replaces what the worker reported before. */
  add(worker: number, report: MetricReport): void;
  /** What an ended worker counted stays: a total that falls would look like a restart of everything. */
  end(worker: number): void;
  /** In the Prometheus text format, together with `own`. */
  text(own: MetricReport): Promise<string>;
};

export function openMetricReports(): MetricReports {
  const reports = new Map<number, MetricReport>();
  let past: MetricReport = [];
  return {
    add: (worker, report) => void reports.set(worker, report),
    end(worker) {
      const totals = reports.get(worker)?.filter(isTotal);
      reports.delete(worker);
      if (totals) past = together([past, totals]).getMetricsAsArray() as unknown as MetricReport;
    },
    text: (own) => together([...reports.values(), past, own]).metrics(),
  };
}

function isTotal({ type }: MetricReport[number]): boolean {
  return ['counter', 'histogram'].includes(String(type));
}

/** The members of each metric have its values, also those of `getMetricsAsArray`. */
function together(reports: readonly MetricReport[]) {
  return AggregatorRegistry.aggregate(reports.map((report) => [...report]));
}
