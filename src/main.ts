import './settings/library-debug.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { useForwardProxy } from './http/forward-proxy.ts';
import { type Running, startGatehouse } from './server.ts';
import { ReloadRefused } from './reload/reloads.ts';
import { ThemeError } from './pages/theme.ts';
import { ListenError } from './http/listen.ts';
import type { CommandLineSettings, Environment } from './settings/environment.ts';
import { loadSettings, secretVariablesIn } from './settings/load.ts';
import { localSettingsFile } from './settings/read-source.ts';
import { SettingsError } from './settings/issues.ts';
import { startupMessage } from './startup-message.ts';
import { StoreNotOpened } from './store/store.ts';

/** For a reader of the log that is slow. */
const LAST_LINES_MS = 1000;

const EXIT_FAILED = 1;
const EXIT_INVALID_SETTINGS = 2;

/** Resolves when the server runs. Ends the process if the server does not start, and when it was stopped. */
export async function runServer(
  environment?: Environment,
  options?: CommandLineSettings,
  { newStore = false }: { newStore?: boolean | undefined } = {},
): Promise<void> {
  const reloadOnSignal = awaitReloadSignal();
  try {
    const settings = loadSettings(environment, { options });
    // A reload never reads another file in place of one that is gone.
    const local = localSettingsFile(environment, options);
    const again = local === undefined ? options : { ...options, config: local };
    const read = () => loadSettings(environment, { options: again });
    useForwardProxy(settings.forwardProxy);
    const secretVariables = () => secretVariablesIn(environment, again);
    const running = await startGatehouse(settings, { source: { read, secretVariables }, newStore });
    stopOnSignal(running);
    reloadOnSignal(running);
    console.log(await startupMessage(settings, running));
  } catch (error) {
    const isInvalidSetting =
      error instanceof SettingsError || error instanceof ListenError || error instanceof ThemeError;
    const isExplained = isInvalidSetting || error instanceof StoreNotOpened;
    console.error(isExplained ? error.message : error);
    process.exit(isInvalidSetting ? EXIT_INVALID_SETTINGS : EXIT_FAILED);
  }
}

/** Returns what reloads at each signal from then on, and at once if one came before: then the settings may have been read too early. */
function awaitReloadSignal(): (running: Running) => void {
  let isWanted = false;
  let onSignal = () => {
    isWanted = true;
  };
  process.on('SIGHUP', () => onSignal());
  return (running) => {
    onSignal = () => reloadOnce(running);
    if (isWanted) onSignal();
  };
}

function reloadOnce({ reload, logger }: Running): void {
  reload('signal').then(
    (report) => logger.info(report, 'the settings were read again'),
    (error: unknown) => {
      if (!(error instanceof ReloadRefused))
        return logger.error({ err: error }, 'reading the settings again failed');
      return logger.error({ reason: error.message }, 'the settings were not changed');
    },
  );
}

/** Ctrl-C stops without `drain`. A second signal exits at once. */
function stopOnSignal(running: Running): void {
  let isStopping = false;
  const stop = async (seconds: number) => {
    if (isStopping) process.exit(EXIT_FAILED);
    isStopping = true;
    await running.stop(seconds);
    const { logger } = running;
    const written = promisify(logger.flush).call(logger);
    await Promise.race([written.catch(() => undefined), delay(LAST_LINES_MS)]);
    process.exit(0);
  };
  process.on('SIGINT', () => stop(0));
  process.on('SIGTERM', () => stop(running.settings().drain));
}
