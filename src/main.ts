import './settings/library-debug.ts';
import { developmentAccount } from './accounts/account.ts';
import { isAdministrator } from './accounts/entitlement.ts';
import { connectLink } from './connectors/connect-link.ts';
import { firstConnector } from './connectors/first-connector.ts';
import { type Running, startGatehouse } from './server.ts';
import { ThemeError } from './pages/theme.ts';
import { ListenError } from './http/listen.ts';
import { loadSettings } from './settings/load.ts';
import { SettingsError } from './settings/issues.ts';
import type { Settings } from './settings/settings.ts';
import { StoreNotOpened } from './store/store.ts';

const EXIT_FAILED = 1;
const EXIT_INVALID_SETTINGS = 2;

async function main(): Promise<void> {
  const settings = loadSettings();
  const running = await startGatehouse(settings);
  stopOnSignal(running, settings.drain);
  console.log(await greeting(settings, running));
}

/** Lists the addresses and, in development, a connect link. */
async function greeting(settings: Settings, { store, urls }: Running): Promise<string> {
  const lines = [`${settings.productName} is running.`, '', ...hostLines(urls, settings)];
  if (settings.production || urls.resource === undefined) return lines.join('\n');
  const connector = await firstConnector(store, Date.now() / 1000);
  if (!connector)
    return [
      ...lines,
      '',
      `Create a connect link${urls.console ? ' in the console, or' : ''}: npx gatehouse connector create --name "My connector" --level operations`,
    ].join('\n');
  const link = connectLink(urls.resource, connector.id);
  return [
    ...lines,
    '',
    `Connect link "${connector.name}" (${connector.level}): ${link}`,
    `Add it to Claude Code: claude mcp add --transport http gatehouse ${link}`,
    '',
    'Press Ctrl-C to stop.',
  ].join('\n');
}

function hostLines(urls: Running['urls'], settings: Settings): string[] {
  const { auth, resource, management, console, developmentIdp } = urls;
  const idp = developmentIdp && `${developmentIdp} (development only)`;
  const [administrator] = developmentAdministrators(settings);
  const as = administrator === undefined ? '' : ` (sign in as ${administrator})`;
  return Object.entries({
    'authorization server': auth,
    'resource server': resource,
    management,
    console: console && console + as,
    'identity provider': idp,
  }).flatMap(([name, url]) => (url ? [`  ${name.padEnd(20)}  ${url}`] : []));
}

/** Returns the names of the development people who are administrators of the console. */
function developmentAdministrators({ developmentIdp: idp, management }: Settings): string[] {
  const people = idp?.people ?? [];
  return people
    .filter((person) =>
      isAdministrator(developmentAccount(String(idp?.url), person), management.administrators),
    )
    .map(({ name }) => name);
}

/** Ctrl-C stops without `drain`. A second signal exits at once. */
function stopOnSignal(running: Running, drain: number): void {
  let isStopping = false;
  const stop = async (seconds: number) => {
    if (isStopping) process.exit(EXIT_FAILED);
    isStopping = true;
    await running.stop(seconds);
    process.exit(0);
  };
  process.on('SIGINT', () => stop(0));
  process.on('SIGTERM', () => stop(drain));
}

try {
  await main();
} catch (error) {
  const isInvalidSetting =
    error instanceof SettingsError || error instanceof ListenError || error instanceof ThemeError;
  const isExplained = isInvalidSetting || error instanceof StoreNotOpened;
  console.error(isExplained ? error.message : error);
  process.exit(isInvalidSetting ? EXIT_INVALID_SETTINGS : EXIT_FAILED);
}
