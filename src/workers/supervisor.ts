// `gatehouse start --workers`: the supervisor starts, replaces and ends child processes that share the listeners, and gathers their metrics.
import cluster, { type Worker } from 'node:cluster';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import { openWorkerMetrics } from '../observability/worker-metrics.ts';
import { answerHandovers } from './handovers.ts';
import type { FromWorker, ToWorker } from './messages.ts';

export type SupervisorOptions = {
  /** `auto`: one for each core that this process may use. */
  workers: number | 'auto';
  logger: Logger;
};

type Member = {
  worker: Worker;
  startedAt: number;
  isReady: boolean;
  /** Resolves to false if it ended before it was ready. */
  ready: Promise<boolean>;
  /** What it exits with. */
  exit: Promise<number>;
  /** Whether another one takes its place when it ends. */
  isNeeded: boolean;
  /** Kills it if it does not stop in time. */
  deadline?: NodeJS.Timeout;
};

const EXIT_FAILED = 1;
/** Beside the time in which it accepts requests: for those in progress and the store. */
const STOP_MS = 20_000;
/** A worker that ran for this long is replaced at once, whatever happened before. */
const STABLE_MS = 60_000;
const MIN_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;

/**
 * Resolves to the exit code when all workers have ended: that of the first one if it does not start, so that an invalid setting is reported once.
 * SIGTERM and Ctrl-C stop the workers, the second time at once. SIGHUP reloads the settings. SIGUSR2 restarts the workers one after the other.
 */
export async function superviseWorkers(options: SupervisorOptions): Promise<number> {
  const { logger } = options;
  const count = options.workers === 'auto' ? availableParallelism() : options.workers;
  cluster.setupPrimary({ serialization: 'advanced' });
  const members = new Set<Member>();
  const metrics = openWorkerMetrics(count);
  const allEnded = Promise.withResolvers<number>();
  let isStopping = false;
  let exitCode = 0;
  let isReloadWanted = false;
  let failures = 0;

  const start = ({ isNeeded }: Pick<Member, 'isNeeded'>): Member => {
    const worker = cluster.fork();
    answerHandovers(worker);
    const ready = Promise.withResolvers<boolean>();
    const exit = Promise.withResolvers<number>();
    const member: Member = {
      worker,
      startedAt: performance.now(),
      isReady: false,
      ready: ready.promise,
      exit: exit.promise,
      isNeeded,
    };
    members.add(member);
    const onEnd = (how: object, code = EXIT_FAILED) => {
      if (!members.delete(member)) return;
      ready.resolve(false);
      exit.resolve(code);
      clearTimeout(member.deadline);
      metrics.ended(worker.id);
      if (isStopping && members.size === 0) allEnded.resolve(exitCode);
      if (isStopping) return;
      if (member.isNeeded) replace(member, how);
      else if (member.isReady && code !== 0) noteLoss(member, how);
    };
    worker.on('message', (message: FromWorker) => {
      if (message.type === 'report') metrics.reported(worker.id, message);
      if (message.type === 'gather') void gather(worker, message.id);
      if (message.type === 'stopping') killAfter(member, message.seconds);
      if (message.type !== 'ready') return;
      member.isReady = true;
      ready.resolve(true);
      if (isReloadWanted) reload();
    });
    worker.once('error', (err) => onEnd({ err }));
    worker.once('exit', (code, signal) => onEnd({ code, signal }, code ?? EXIT_FAILED));
    return member;
  };

  const replace = ({ worker, startedAt }: Member, how: object) => {
    failures = performance.now() - startedAt > STABLE_MS ? 1 : failures + 1;
    const pause = failures === 1 ? 0 : Math.min(MIN_PAUSE_MS * 2 ** (failures - 2), MAX_PAUSE_MS);
    metrics.died();
    logger.error(
      { what: 'workers', pid: worker.process.pid, ...how, pause: pause / 1000 },
      'a worker ended by itself, and another one takes its place',
    );
    setTimeout(() => isStopping || start({ isNeeded: true }), pause);
  };

  /** Of a worker that had left, with the requests that it still had. */
  const noteLoss = ({ worker }: Member, how: object) => {
    metrics.died();
    logger.error(
      { what: 'workers', pid: worker.process.pid, ...how },
      'a worker that another one had replaced ended before its last requests',
    );
  };

  const ready = () => [...members].filter(({ isReady }) => isReady);
  const gather = async (asking: Worker, id: number) => {
    const workers = ready().map(({ worker }) => worker);
    const ask = (worker: Worker, report: number) => tell(worker, { type: 'report', id: report });
    tell(asking, { type: 'gathered', id, text: await metrics.gather(workers, ask) });
  };

  const killAfter = (member: Member, seconds: number) => {
    const { pid } = member.worker.process;
    clearTimeout(member.deadline);
    member.deadline = setTimeout(
      () => {
        exitCode = EXIT_FAILED;
        logger.error({ what: 'workers', pid }, 'a worker did not stop in time, and is killed');
        member.worker.process.kill('SIGKILL');
      },
      seconds * 1000 + STOP_MS,
    );
  };

  const stop = (wantsDrain: boolean) => {
    if (isStopping) {
      for (const { worker } of members) worker.process.kill('SIGKILL');
      allEnded.resolve(EXIT_FAILED);
      return;
    }
    isStopping = true;
    for (const member of members)
      if (member.isReady) {
        // Until it answers how long it takes.
        killAfter(member, 0);
        tell(member.worker, { type: 'stop', drain: wantsDrain });
      } else member.worker.process.kill('SIGKILL');
    if (members.size === 0) allEnded.resolve(0);
  };

  const restart = async () => {
    const running = [...members].filter(({ isNeeded }) => isNeeded);
    logger.info({ what: 'workers', count: running.length }, 'the workers are restarted');
    for (const member of running) {
      if (isStopping) return;
      // One that died meanwhile was replaced.
      if (!members.has(member)) continue;
      // From now on, the new one takes its place, also if it dies first.
      member.isNeeded = false;
      const next = start({ isNeeded: false });
      if (!(await next.ready)) {
        member.isNeeded = true;
        if (isStopping) return;
        if (!members.has(member)) start({ isNeeded: true });
        logger.error(
          { what: 'workers' },
          'a new worker did not start, so the others go on: the lines before say why; mend it, then send SIGUSR2 again',
        );
        return;
      }
      next.isNeeded = true;
      tell(member.worker, { type: 'leave' });
    }
    logger.info({ what: 'workers' }, 'the workers were restarted');
  };

  /** While none is ready, the first may have read its settings before the signal. */
  const reload = () => {
    const member = ready().find(({ isNeeded }) => isNeeded) ?? ready().at(-1);
    isReloadWanted = member === undefined;
    member?.worker.process.kill('SIGHUP');
  };

  let restarts = Promise.resolve();
  process.on('SIGINT', () => stop(false));
  process.on('SIGTERM', () => stop(true));
  process.on('SIGHUP', reload);
  process.on('SIGUSR2', () => (restarts = restarts.then(restart)));
  const first = start({ isNeeded: false });
  if (!(await first.ready)) return isStopping ? 0 : first.exit;
  first.isNeeded = true;
  const others = Array.from({ length: count - 1 }, () => start({ isNeeded: true }));
  await Promise.all(others.map((member) => member.ready));
  logger.info({ what: 'workers', count }, 'the workers run');
  tell(first.worker, { type: 'announce' });
  return allEnded.promise;
}

/** A worker that has just ended needs no message. */
function tell(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => undefined);
}
