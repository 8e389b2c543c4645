// A process of `gatehouse start --workers`, as it speaks with its supervisor.
import cluster from 'node:cluster';
import type { GatherMetrics } from '../observability/metrics.ts';
import type { MetricReport } from '../observability/metric-reports.ts';
import type { FromWorker, ToWorker } from './messages.ts';

/** What the supervisor asks for. */
export type WorkerDuties = {
  /** Prints the addresses. */
  announce: () => void;
  /** Ends the process. Returns the seconds in which it still accepts requests. */
  stop: (drain: boolean) => number;
  /** Ends the process when no connection is left. */
  leave: () => void;
};

export type Worker = {
  gatherMetrics: GatherMetrics;
  /** Call when the process accepts requests. */
  ready(duties: WorkerDuties): void;
  /** Call before the process ends, so that what it counted stays. */
  reportTotals(): Promise<void>;
};

const GATHER_MS = 5000;

/** Undefined if this process is no worker. */
export function openWorker(): Worker | undefined {
  if (!cluster.isWorker) return undefined;
  const waiting = new Map<number, (text: string) => void>();
  let gatherings = 0;
  let report = async (): Promise<MetricReport> => [];
  let duties: WorkerDuties | undefined;
  const sendReport = async (id?: number) =>
    send({ type: 'report', ...(id === undefined ? {} : { id }), report: await report() });
  process.on('message', (message: ToWorker) => {
    if (message.type === 'report') void sendReport(message.id);
    if (message.type === 'gathered') waiting.get(message.id)?.(message.text);
    if (message.type === 'announce') duties?.announce();
    if (message.type === 'leave') duties?.leave();
    if (message.type === 'stop' && duties)
      void send({ type: 'stopping', seconds: duties.stop(message.drain) });
  });
  // Ctrl-C reaches every process of a terminal. The supervisor says what follows.
  process.on('SIGINT', () => undefined);
  return {
    gatherMetrics(own) {
      report = own;
      return async () => {
        const id = (gatherings += 1);
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        waiting.set(id, resolve);
        const timer = setTimeout(
          () => reject(new Error('the supervisor did not answer with the metrics')),
          GATHER_MS,
        );
        await send({ type: 'gather', id });
        return promise.finally(() => {
          clearTimeout(timer);
          waiting.delete(id);
        });
      };
    },
    ready(given) {
      duties = given;
      void send({ type: 'ready' });
      const { worker } = cluster;
      worker?.once('disconnect', () => {
        // The supervisor is gone. Otherwise Node would end the process with its requests.
        worker.exitedAfterDisconnect = true;
        given.stop(false);
      });
    },
    reportTotals: () => sendReport(),
  };
}

/** Resolves also if there is no supervisor any more. */
async function send(message: FromWorker): Promise<void> {
  if (!process.connected) return;
  await new Promise<void>((resolve) => {
    process.send?.(message, undefined, {}, () => resolve());
  });
}
