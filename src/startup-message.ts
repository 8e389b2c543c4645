// What the server prints when it runs.
import { developmentAccount } from './accounts/account.ts';
import { isAdministrator } from './accounts/entitlement.ts';
import { connectLink } from './connectors/connect-link.ts';
import { firstConnector } from './connectors/first-connector.ts';
import type { Running } from './server.ts';
import type { Settings } from './settings/settings.ts';

/** Lists the addresses and, in development, a connect link. */
export async function startupMessage(
  settings: Settings,
  { store, urls }: Pick<Running, 'store' | 'urls'>,
): Promise<string> {
  const lines = [`${settings.productName} is running.`, '', ...hostLines(urls, settings)];
  if (settings.production || urls.resource === undefined) return lines.join('\n');
  const connector = await firstConnector(store, Date.now() / 1000, settings);
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
