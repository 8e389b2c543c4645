import './settings/library-debug.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Logger } from 'pino';
import { useForwardProxy } from './http/forward-proxy.ts';
import type { Running } from './server.ts';
import { ReloadRefused } from './reload/reloads.ts';
import { ThemeError } from './pages/theme.ts';
import { ListenError } from './http/listen.ts';
import type { CommandLineSettings, Environment } from './settings/environment.ts';
import { loadSettings, secretVariablesIn } from './settings/load.ts';
import { localSettingsFile } from './settings/read-source.ts';
import { SettingsError } from './settings/issues.ts';
import { createLogger } from './observability/logger.ts';
import type { Settings } from './settings/settings.ts';
import { StoreNotOpened } from './store/store.ts';
import { openWorker, type Worker, type WorkerDuties } from './workers/worker.ts';

/** For a reader of the log that is slow. */
const LAST_LINES_MS = 1000;

/** Until a signal is tried again that came while another process reloads. */
const BUSY_MS = 500;

const NOTHING_TO_RESTART =
  'SIGUSR2 restarts workers, and this process has none: to restart it, use its service manager';
/** A file that a worker reads when it starts can differ from that of the supervisor. */
const NO_WORKERS = {
  setting: 'workers',
  given: 'nothing',
  expected:
    'a number or auto, because workers run: to go on with one process, as on SQLite, stop Gatehouse and start it again',
};

const EXIT_FAILED = 1;
const EXIT_INVALID_SETTINGS = 2;

/** Resolves when the server runs, with workers when they have ended. Ends the process if the server does not start, and when it was stopped. */
export async function runServer(
  environment?: Environment,
  options?: CommandLineSettings,
  { newStore = false }: { newStore?: boolean | undefined } = {},
): Promise<void> {
  const worker = openWorker();
  const reloadOnSignal = awaitReloadSignal();
  try {
    const settings = loadSettings(environment, { options });
    const { workers } = settings;
    if (workers !== undefined && !worker) return await supervise({ ...settings, workers });
    if (workers === undefined && worker) throw new SettingsError([NO_WORKERS]);
    // A reload never reads another file in place of one that is gone.
    const local = localSettingsFile(environment, options);
    const again = local === undefined ? options : { ...options, config: local };
    const read = () => loadSettings(environment, { options: again });
    await useForwardProxy(settings.forwardProxy);
    const secretVariables = () => secretVariablesIn(environment, again);
    const { startGatehouse } = await import('./server.ts');
    const running = await startGatehouse(settings, {
      source: { read, secretVariables },
      newStore,
      gatherMetrics: worker?.gatherMetrics,
    });
    const announce = async () => console.log(await running.startupMessage());
    const { stop, leave } = stopOnSignal(running, worker);
    reloadOnSignal(running);
    process.on('SIGUSR2', () => running.logger.warn({ what: 'workers' }, NOTHING_TO_RESTART));
    if (!worker) return await announce();
    worker.ready({ announce: () => void announce(), stop, leave });
  } catch (error) {
    const isInvalidSetting =
      error instanceof SettingsError || error instanceof ListenError || error instanceof ThemeError;
    const isExplained = isInvalidSetting || error instanceof StoreNotOpened;
    console.error(isExplained ? error.message : error);
    process.exit(isInvalidSetting ? EXIT_INVALID_SETTINGS : EXIT_FAILED);
  }
}

/** The supervisor loads nothing of the server. */
async function supervise(settings: Settings & Required<Pick<Settings, 'workers'>>): Promise<never> {
  const { superviseWorkers } = await import('./workers/supervisor.ts');
  const logger = createLogger(settings.logLevel);
  const code = await superviseWorkers({ ...settings, logger });
  await lastLines(logger);
  process.exit(code);
}

/**
 * Returns what reloads at each signal from then on, and at once if one came before: then the settings may have been read too early. A signal that
 * comes during a reload of any process is not lost, because its sender is told nothing: the settings are read again after it.
 */
function awaitReloadSignal(): (running: Running) => void {
  let isWanted = false;
  let onSignal = () => undefined as void;
  process.on('SIGHUP', () => {
    isWanted = true;
    onSignal();
  });
  return (running) => {
    let isReloading = false;
    const reloadWhileWanted = async () => {
      isReloading = true;
      while (isWanted) {
        isWanted = false;
        if ((await reloadOnce(running)) !== 'busy') continue;
        isWanted = true;
        await delay(BUSY_MS, undefined, { ref: false });
      }
      isReloading = false;
    };
    onSignal = () => {
      if (!isReloading) void reloadWhileWanted();
    };
    if (isWanted) onSignal();
  };
}

/** Never rejects. */
async function reloadOnce({ reload, logger }: Running): Promise<'busy' | 'done'> {
  try {
    logger.info(await reload('signal'), 'the settings were read again');
  } catch (error) {
    if (!(error instanceof ReloadRefused))
      logger.error({ err: error }, 'reading the settings again failed');
    else if (error.kind === 'busy') return 'busy';
    else logger.error({ reason: error.message }, 'the settings were not changed');
  }
  return 'done';
}

/** Ctrl-C stops without `drain`. A second signal exits at once. Returns the same for the supervisor, which asks again without an effect. */
function stopOnSignal(
  running: Running,
  worker: Worker | undefined,
): Pick<WorkerDuties, 'stop' | 'leave'> {
  let isStopping = false;
  const end = async (ending: Promise<void>) => {
    await ending;
    await worker?.reportTotals();
    await lastLines(running.logger);
    process.exit(0);
  };
  const stop = (seconds: number) => {
    if (isStopping) return;
    isStopping = true;
    void end(running.stop(seconds));
  };
  const stopOrExit = (seconds: number) => {
    if (isStopping) process.exit(EXIT_FAILED);
    stop(seconds);
  };
  if (!worker) process.on('SIGINT', () => stopOrExit(0));
  process.on('SIGTERM', () => stopOrExit(running.settings().drain));
  return {
    stop(drain) {
      const seconds = drain ? running.settings().drain : 0;
      stop(seconds);
      return seconds;
    },
    leave: () => void end(running.leave()),
  };
}

async function lastLines(logger: Logger): Promise<void> {
  const written = promisify(logger.flush).call(logger);
  await Promise.race([written.catch(() => undefined), delay(LAST_LINES_MS)]);
}
