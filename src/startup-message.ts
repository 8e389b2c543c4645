// What the server prints when it runs.
import { developmentAccount } from './people/account.ts';
import { consoleRole } from './people/entitlement.ts';
import { claudeCommand } from './links/app-instructions.ts';
import { connectLink } from './links/connect-link.ts';
import type { Connector } from './links/connector.ts';
import { firstConnector } from './links/first-connector.ts';
import { levelTextMismatch } from './pages/level-texts.ts';
import { highestLevel, type Level, levelIds } from './permission-levels.ts';
import type { Settings } from './settings/settings.ts';
import { findUpstream, type Upstream } from './settings/upstreams.ts';
import type { Store } from './store/store.ts';
import { openedTools } from './upstreams/opened-tools.ts';
import { type Selection, selectionOf } from './upstreams/tool-access.ts';
import { findCatalog, type ToolCatalog } from './upstreams/tool-catalog.ts';

/** The public addresses of the hosts that this process serves. */
export type ServedUrls = {
  auth?: string;
  resource?: string;
  management?: string;
  console?: string;
  developmentIdp?: string;
};

/** Lists the addresses, the number of tools that each level opens, and the next step: in development with a connect link. */
export async function startupMessage(
  settings: Settings,
  { store, urls }: { store: Store; urls: ServedUrls },
): Promise<string> {
  const texts = urls.auth === undefined ? [] : levelTextLines(settings);
  const lines = [
    `${settings.productName} is running.`,
    '',
    ...hostLines(urls, settings),
    ...(texts.length > 0 ? ['', ...texts] : []),
  ];
  if (urls.resource === undefined) return [...lines, '', ...nextStep(settings, urls)].join('\n');
  const servers = await Promise.all(
    settings.upstreams.map(async (upstream) => ({
      upstream,
      catalog: await waitForCatalog(store, upstream),
    })),
  );
  const tools = servers.flatMap(({ upstream, catalog }) => toolLines(settings, upstream, catalog));
  const told = [...lines, ...(tools.length > 0 ? ['', ...tools] : []), ''];
  const connector = settings.production
    ? undefined
    : await firstConnector(store, Date.now() / 1000, settings);
  if (!connector) return [...told, ...nextStep(settings, urls)].join('\n');
  const link = connectLink(urls.resource, connector.id);
  const upstream = findUpstream(settings.upstreams, connector);
  const catalog = servers.find((server) => server.upstream === upstream)?.catalog;
  return [
    ...told,
    `Connect link "${connector.name}" (${connector.level}): ${link}`,
    `Add it to Claude Code: ${claudeCommand(link, connector.name)}`,
    ...(upstream && catalog ? emptyLinkLines(settings, connector, upstream, catalog) : []),
    '',
    'Press Ctrl-C to stop.',
  ].join('\n');
}

/** The consent page shows these texts. */
function levelTextLines(settings: Settings): string[] {
  const { unknown, untitled, partial } = levelTextMismatch(settings);
  const known = levelIds(settings.levels).join(', ');
  return [
    ...(unknown.length > 0
      ? [
          `The theme has texts about levels that are not in the settings: ${unknown.join(', ')}. Name levels of the settings (${known}) in its message files.`,
        ]
      : []),
    ...partial.map(
      ({ keys, languages, instead }) =>
        `The theme lacks ${keys.join(', ')} in ${languages.join(', ')}, where people read the text of ${instead}. Add them to its message files.`,
    ),
    ...(untitled.length > 0
      ? [
          `Levels without a title: ${untitled.join(', ')}. Write title and sees for each in levels, or the consent page shows only the id and the tools.`,
        ]
      : []),
  ];
}

const CATALOG_WAIT_MS = 5000;
const CATALOG_POLL_MS = 50;

/** This process read the tools when it started. */
const RECENT_SECONDS = 30;

/** Resolves with what was known before, or undefined, if the MCP server is not tried within CATALOG_WAIT_MS. */
async function waitForCatalog(store: Store, upstream: Upstream): Promise<ToolCatalog | undefined> {
  const started = Date.now();
  for (;;) {
    const catalog = await findCatalog(store, upstream).catch(() => undefined);
    const isRecent = catalog && catalog.triedAt > started / 1000 - RECENT_SECONDS;
    if (isRecent || Date.now() > started + CATALOG_WAIT_MS) return catalog;
    await new Promise((resolve) => setTimeout(resolve, CATALOG_POLL_MS));
  }
}

function toolLines(
  settings: Settings,
  upstream: Upstream,
  catalog: ToolCatalog | undefined,
): string[] {
  const name = `MCP server ${upstream.name}`;
  if (catalog?.seenAt === undefined && catalog?.needsCredential)
    return [
      `${name}: it shows its tools to people who have connected their account. To see them before: npx gatehouse upstream connect ${upstream.id}`,
    ];
  if (catalog?.seenAt === undefined || catalog.error)
    return [
      `${name}: its tools cannot be read now (${catalog?.error?.message ?? 'no response yet'}). Gatehouse tries again, and the log says what to check.`,
    ];
  const counts = levelIds(settings.levels).map(
    (level) => `${level} opens ${openedBy(settings, upstream, catalog, level).length}`,
  );
  return [`${name}: ${counts.join(', ')} of ${catalog.tools.length} tools.`];
}

function openedBy(
  { levels }: Settings,
  upstream: Upstream,
  catalog: ToolCatalog,
  level: Level,
  selection: Selection = {},
): string[] {
  return openedTools(levels, upstream, { catalog }, { selection, now: Date.now() / 1000 })(level);
}

function emptyLinkLines(
  settings: Settings,
  connector: Connector,
  upstream: Upstream,
  catalog: ToolCatalog,
): string[] {
  const { level, tools } = connector;
  const open = openedBy(settings, upstream, catalog, level, selectionOf({ connector }));
  if (catalog.seenAt === undefined || open.length > 0) return [];
  const count = catalog.tools.length;
  if (count > 0 && tools && openedBy(settings, upstream, catalog, level).length > 0)
    return [
      `This link shows no tools, because its list opens none: ${tools.join(' ')}. Change it with gatehouse connector update --tools.`,
    ];
  return count === 0
    ? ['This link shows no tools, because the MCP server lists none.']
    : [
        `This link shows no tools, because all ${count} need a level above ${level}. Give them a lower one in ${upstream.setting}.tools, or create a link with the level ${highestLevel(settings.levels)}.`,
      ];
}

function nextStep({ levels, roles, production }: Settings, { console }: ServedUrls): string[] {
  const check = production ? ['Check the deployment: npx gatehouse doctor'] : [];
  if (!roles.includes('management')) return check;
  const inConsole = console === undefined ? '' : ` in the console (${console}), or`;
  const level = highestLevel(levels);
  return [
    ...check,
    `Create a connect link${inConsole}: npx gatehouse connector create --name "My connector" --level ${level}`,
  ];
}

function hostLines(urls: ServedUrls, settings: Settings): string[] {
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
      consoleRole(developmentAccount(String(idp?.url), person), management.administrators),
    )
    .map(({ name }) => name);
}
