// The text of the two files that init writes.
import type { Secrets } from '../settings/secret-file.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import type { LevelDefinition } from '../permission-levels.ts';
import { type ClassifiedTool, SUGGESTED_LEVELS } from './levels.ts';
import { LOGOUT_PATH } from '../identity-providers/logout-token.ts';
import type { Provider } from './providers.ts';
import type { UpstreamHeader } from './upstream-headers.ts';

export const SETTINGS_NAME = 'gatehouse.yaml';
export const SECRET_NAME = 'gatehouse.secret';
export const DATA_DIR = '.data';
export const DEFAULT_STORE = 'sqlite:gatehouse.sqlite';

/** What the person has decided. `clientSecretFile` is as it is written to the file. */
export type Decisions = {
  authUrl: string;
  resourceUrl: string;
  /** Undefined if the secret file has it. */
  store: string | undefined;
  provider: Provider;
  issuer: string | undefined;
  clientId: string | undefined;
  clientSecretFile: string | undefined;
  upstream:
    | {
        url: string;
        privateNetwork: boolean;
        headers: readonly UpstreamHeader[];
        tools: readonly ClassifiedTool[];
      }
    | undefined;
};

/** Returns a settings file in YAML. */
export function settingsText(decisions: Decisions): string {
  const { upstream } = decisions;
  return `${[
    HEAD,
    addresses(decisions),
    storage(decisions),
    decisions.clientId === undefined ? DEVELOPMENT_PROVIDER : identityProvider(decisions),
    ...(upstream ? [LEVELS] : []),
    entitlements(decisions),
    administrators(decisions),
    upstream ? resourceServer(upstream) : SAMPLE,
  ].join('\n\n')}\n`;
}

const HEAD = `# Settings of Gatehouse, written by \`gatehouse init\`. Change them, and start Gatehouse again.
# config/settings.md of Gatehouse describes every setting. Relative paths start at the folder of this file.`;

function addresses({ authUrl, resourceUrl }: Decisions): string {
  return `# Public address of the authorization server, where people sign in. It is also the issuer: changing it signs everybody out.
authUrl: ${authUrl}

# Public address of the resource server. Connect links start with it: changing it invalidates all of them.
resourceUrl: ${resourceUrl}

# Address of the management console and API. Keep it off the internet.
managementUrl: http://127.0.0.1:4002${listeners(authUrl, resourceUrl)}`;
}

/** Gatehouse serves plain http, so an https address needs a listener of its own. */
function listeners(authUrl: string, resourceUrl: string): string {
  const isProxied = (url: string) => url.startsWith('https:') || !isLoopbackUrl(url);
  const auth = isProxied(authUrl) ? ['  auth: 127.0.0.1:4000'] : [];
  const port = authUrl === resourceUrl ? 4000 : 4001;
  const resource = isProxied(resourceUrl) ? [`  resource: 127.0.0.1:${port}`] : [];
  if (auth.length + resource.length === 0) return '';
  return `

# Where Gatehouse listens, with plain http: the proxy in front of it terminates TLS. In a container, or if the proxy runs on another
# computer, use 0.0.0.0 in place of 127.0.0.1.
listen:
${[...auth, ...resource].join('\n')}

# Number of proxies in front of Gatehouse that add to X-Forwarded-For.
proxies: 1`;
}

function storage({ store }: Decisions): string {
  const address =
    store === undefined
      ? `# The address of the database is in ${SECRET_NAME} (GATEHOUSE_STORE), because it contains a password.`
      : `# Database: SQLite for one process, Redis for several.\nstore: ${scalar(store)}`;
  return `${address}

# Folder of the SQLite database.
dataDir: ${DATA_DIR}

# File with the root secret and the other secrets. Only the user that runs Gatehouse may read it.
secretFile: ${SECRET_NAME}`;
}

const DEVELOPMENT_PROVIDER = `# The built-in identity provider: a page where you choose one of these people, without a password. Production refuses it.
developmentIdp:
  url: http://localhost:4003
  people:
    - { id: ada, name: Ada Lovelace, email: ada@example.com }
    - { id: grace, name: Grace Hopper, email: grace@example.com, groups: [staff] }
    - { id: alan, name: Alan Turing, email: alan@example.com }`;

function identityProvider(decisions: Decisions): string {
  const { authUrl, provider, issuer, clientId = '', clientSecretFile } = decisions;
  const lines = [
    ...(provider.isNameless ? [] : [`name: ${provider.title}`]),
    ...(issuer === undefined ? [] : [`issuer: ${scalar(issuer)}`]),
    `clientId: ${scalar(clientId)}`,
    ...(clientSecretFile === undefined ? [] : [`clientSecretFile: ${scalar(clientSecretFile)}`]),
    ...(provider.settings ?? []),
  ];
  const comment = [
    'Where people sign in. Register Gatehouse there:',
    `- Redirect URI: ${redirectUri(authUrl)}`,
    ...(provider.sendsLogoutTokens
      ? [`- Back-channel logout URL, which ends sessions here too: ${authUrl}${LOGOUT_PATH}`]
      : []),
    ...provider.registration.map((step) => `- ${step}`),
  ];
  return `${commentOf(comment)}\nidentityProvider:\n${indented(lines, 2)}`;
}

export function redirectUri(authUrl: string): string {
  return `${authUrl}/interaction/callback`;
}

function levelEntry({ id, title, recorded }: LevelDefinition): string[] {
  const texts = typeof title === 'object' ? Object.entries(title) : [];
  return [
    `- id: ${id}`,
    `  title: { ${texts.map(([language, text]) => `${language}: ${text}`).join(', ')} }`,
    ...(recorded ? ['  # Calls are recorded before they are answered.', '  recorded: true'] : []),
  ];
}

const LEVELS = `# The levels of access to your MCP server, lowest first. People choose one of them on the consent page, which shows its title and tools.
# Add what an app sees or does at each level (sees) and what stays hidden (hidden), each as one text or as a text for each language.
# An id that is in use cannot be changed without new connect links.
levels:
${indented(SUGGESTED_LEVELS.flatMap(levelEntry), 2)}`;

/** The tools that init gives each of the levels. */
const TOOL_COMMENTS = [
  'Tools that say that they only read.',
  'Tools that say that they write, and delete or overwrite nothing.',
  'All other tools: they may delete or overwrite, or do not say what they do.',
];

function entitlements({ provider, clientId, upstream }: Decisions): string {
  const [lowest, second, highest] = upstream
    ? SUGGESTED_LEVELS.map(({ id }) => id)
    : ['analytics', 'operations', 'full'];
  if (clientId === undefined)
    return `# Who may have which level: a person or, as in the rule for Grace, a group. Alan has none: sign in as Alan to see a refusal.
entitlements:
  - match: { subject: ada }
    level: ${highest}
  - match: { group: staff }
    level: ${second}`;
  return `${commentOf([
    'Who may have which level: the highest level of all rules that match. People without a matching rule get no access. CHANGE THIS',
    'RULE: it is an example that matches nobody.',
    ...provider.rule.hints,
  ])}
entitlements:
  - match: ${provider.rule.match}
    level: ${lowest}`;
}

function administrators({ clientId, provider }: Decisions): string {
  if (clientId === undefined)
    return `# Administrators of the console, {managementUrl}/console.
management:
  administrators:
    - subject: ada`;
  return `${commentOf([
    'Administrators of the console, {managementUrl}/console. Its redirect URI at the identity provider is',
    '{managementUrl}/console/callback. Without administrators, there is no console.',
  ])}
#management:
#  administrators:
#    - ${provider.rule.match}`;
}

const SAMPLE = `# Without an MCP server of your own, connect links lead to the built-in sample. To use your own:
#resourceServer:
#  upstream:
#    url: http://localhost:9000/mcp`;

function resourceServer({
  url,
  privateNetwork,
  headers,
  tools,
}: NonNullable<Decisions['upstream']>): string {
  const lines = [
    `# Your MCP server. It gets the caller of each call in the signed header Gatehouse-Caller: verify it there.`,
    `url: ${scalar(url)}`,
    ...(privateNetwork
      ? [
          '# Accept plain http, because nobody else can listen on this network.',
          'privateNetwork: true',
        ]
      : []),
    ...headerLines(headers),
    '# The level that tools need which are not in the list, and resources, prompts and other methods.',
    'defaultLevel: full',
    ...toolLines(tools),
  ];
  return `resourceServer:\n  upstream:\n${indented(lines, 4)}`;
}

function headerLines(headers: readonly UpstreamHeader[]): string[] {
  if (headers.length === 0) return [];
  return [
    '# Sent with every request. The values are in these environment variables, which Gatehouse reads when it starts.',
    'headers:',
    ...headers.map(
      ({ name, variable }) => `  ${scalarInBraces(name)}: { env: ${scalarInBraces(variable)} }`,
    ),
  ];
}

function toolLines(tools: readonly ClassifiedTool[]): string[] {
  if (tools.length === 0)
    return [
      '# The level that each tool needs. Name the tools of your server, for example:',
      '#tools:',
      '#  - { name: search_orders, level: read }',
    ];
  const groups = SUGGESTED_LEVELS.map(({ id }, n) => ({
    comment: TOOL_COMMENTS[n],
    members: tools.filter(({ level }) => level === id),
  })).filter(({ members }) => members.length > 0);
  return [
    '# The level that each tool needs: a suggestion from what your server says about its tools (annotations). Check each of them.',
    'tools:',
    ...groups.flatMap(({ comment, members }) => [
      `  # ${comment}`,
      ...members.map((tool) => `  ${toolLine(tool)}`),
    ]),
  ];
}

const MAX_TITLE_LENGTH = 60;

function toolLine({ name, title, level }: ClassifiedTool): string {
  const text = oneLine(title);
  const comment = text === '' || text === name ? '' : ` # ${text}`;
  return `- { name: ${scalarInBraces(name)}, level: ${level} }${comment}`;
}

/** A key or value between braces, where YAML allows fewer characters without quotes. */
function scalarInBraces(name: string): string {
  return /^[\w-]+$/.test(name) ? scalar(name) : JSON.stringify(name);
}

/** Text of the MCP server must not end the comment. */
function oneLine(text: string): string {
  const line = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > MAX_TITLE_LENGTH ? `${line.slice(0, MAX_TITLE_LENGTH)}…` : line;
}

/** A plain scalar where that is safe, otherwise a double-quoted one, which YAML shares with JSON. */
function scalar(text: string): string {
  return /^(\.{0,2}\/|[A-Za-z])([\w./:@+-]*[\w./])?$/.test(text) &&
    !/^(true|false|null|yes|no|on|off)$/i.test(text)
    ? text
    : JSON.stringify(text);
}

function commentOf(lines: readonly string[]): string {
  return lines.map((line) => `# ${line}`).join('\n');
}

function indented(lines: readonly string[], width: number): string {
  return lines.map((line) => ' '.repeat(width) + line).join('\n');
}

const ABOUT: Readonly<Record<keyof Secrets, string>> = {
  GATEHOUSE_SECRET:
    'Root secret, from which all keys are derived. Keep a copy in a safe place: without it, the store cannot be read.',
  GATEHOUSE_PREVIOUS_SECRET: 'Previous root secret.',
  GATEHOUSE_MANAGEMENT_KEY: 'Key of the management API, which the command line uses.',
  GATEHOUSE_IDENTITY_PROVIDER_SECRET: 'Client secret that the identity provider gave to Gatehouse.',
  GATEHOUSE_STORE: 'Address of the database, with its password.',
};

/** Returns a secret file. */
export function secretText(secrets: Secrets): string {
  const names = Object.keys(ABOUT) as (keyof Secrets)[];
  const entries = names.flatMap((name) =>
    secrets[name] === undefined ? [] : [`\n# ${ABOUT[name]}\n${name}=${secrets[name]}\n`],
  );
  return `# Secrets of Gatehouse, written by \`gatehouse init\`. Keep this file out of version control.\n${entries.join('')}`;
}
