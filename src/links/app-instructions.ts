// How to add a connect link to common apps. test/interoperability/README.md describes the same apps.

import { isListedDocument } from '../settings/document-hosts.ts';
import { allowedApps, appCatalog, appWithCallback } from '../settings/apps.ts';
import type { Settings } from '../settings/settings.ts';

/** An address that adds the link to the client with this name. It has the scheme of the client. */
export type InstallLink = { client: string; href: string };

export type Instruction = {
  /** The key of its texts below `apps`. */
  client:
    | 'claude'
    | 'chatgpt'
    | 'le-chat'
    | 'claude-code'
    | 'vs-code'
    | 'cursor'
    | 'codex'
    | 'gemini-cli'
    | 'mcp-remote'
    | 'terminal'
    | 'other';
  /** The text to copy. */
  text: string;
  /** What the text calls the connector. */
  name: string;
};

/** `name` is the name of the connector. Addresses, files and commands use a short form of it. */
export function installLinks(link: string, name: string, clients: AppSettings): InstallLink[] {
  const server = serverName(name);
  const config = encodeURIComponent(Buffer.from(JSON.stringify({ url: link })).toString('base64'));
  const vsCode = encodeURIComponent(JSON.stringify({ name: server, type: 'http', url: link }));
  const links: (InstallLink & { app: string })[] = [
    {
      app: 'cursor',
      client: 'Cursor',
      href: `cursor://anysphere.cursor-deeplink/mcp/install?name=${server}&config=${config}`,
    },
    { app: 'vs-code', client: 'VS Code', href: `vscode:mcp/install?${vsCode}` },
    { app: 'vs-code', client: 'VS Code Insiders', href: `vscode-insiders:mcp/install?${vsCode}` },
    {
      app: 'lm-studio',
      client: 'LM Studio',
      href: `lmstudio://add_mcp?name=${server}&config=${config}`,
    },
  ];
  return links.flatMap(({ app, ...install }) => (mayIdentify(app, clients) ? [install] : []));
}

type AppSettings = Parameters<typeof allowedApps>[0] &
  Pick<Settings['clients'], 'registration' | 'metadataDocuments' | 'metadataDocumentHosts'>;

/** Metadata documents of programs on a person's own computer. The others register themselves. */
const DOCUMENTS: Record<string, string> = {
  'claude-code': 'https://claude.ai/oauth/claude-code-client-metadata',
  'vs-code': 'https://vscode.dev/oauth/client-metadata.json',
};

/** Whether the settings let a program on a person's own computer say what it is: nothing registers itself if `registration` is `closed`. */
function mayIdentify(app: string, clients: AppSettings): boolean {
  const { registration, metadataDocuments, metadataDocumentHosts = [] } = clients;
  if (registration !== 'closed') return true;
  const document = DOCUMENTS[app];
  if (document === undefined) return false;
  const isListed = metadataDocuments.some(({ url }) => url === document);
  return isListed || isListedDocument(metadataDocumentHosts, document);
}

/** The programs on a person's own computer for which the connect page leaves out the instructions, because the settings refuse them. */
export function refusedPrograms(clients: AppSettings): string[] {
  return REGISTERING.filter((app) => !mayIdentify(app, clients));
}

const REGISTERING = ['claude-code', 'vs-code', 'cursor', 'codex', 'gemini-cli', 'mcp-remote'];

/** Hosted apps are those that the settings allow. Omits them for a link of this computer, because they connect from the internet. */
export function instructionsFor(link: string, name: string, clients: AppSettings): Instruction[] {
  const server = serverName(name);
  const word = shellWord(link);
  const allowed = LOOPBACK.test(link) ? [] : allowedApps(clients);
  const hosted = new Set(allowed.flatMap(({ id, connectPage }) => (connectPage ? [id] : [])));
  const instructions: Omit<Instruction, 'name'>[] = [
    ...HOSTED.filter((id) => hosted.has(id)).map((client) => ({ client, text: link })),
    { client: 'claude-code', text: claudeCommand(link, name) },
    { client: 'vs-code', text: json({ servers: { [server]: { type: 'http', url: link } } }) },
    { client: 'cursor', text: json({ mcpServers: { [server]: { url: link } } }) },
    { client: 'codex', text: `codex mcp add ${server} --url ${word}` },
    { client: 'gemini-cli', text: `gemini mcp add --transport http ${server} ${word}` },
    {
      client: 'mcp-remote',
      text: json({
        mcpServers: { [server]: { command: 'npx', args: ['-y', 'mcp-remote', link] } },
      }),
    },
    { client: 'terminal', text: terminalCommand(link) },
    { client: 'other', text: link },
  ];
  const refused = refusedPrograms(clients);
  return instructions
    .filter(({ client }) => !refused.includes(client === 'terminal' ? 'mcp-remote' : client))
    .map((instruction) => ({ ...instruction, name: server }));
}

/** Those of the catalogue with texts, in the order of the page. */
const HOSTED = ['claude', 'chatgpt', 'le-chat'] as const;

/** How people remove a server in an app, in the words of its English interface. */
export type Removal = { app: string; steps: string };

/** Of programs whose callbacks are on the person's computer, which do not tell which program it is. */
const LOCAL_REMOVALS: readonly Removal[] = [
  { app: 'Claude Code', steps: 'claude mcp remove <name>' },
  { app: 'Codex', steps: 'codex mcp logout <name>' },
  { app: 'Gemini CLI', steps: 'gemini mcp remove <name>' },
  { app: 'mcp-remote', steps: 'rm -r ~/.mcp-auth' },
];

/** Of the app with this callback, if it is known, or of all that may connect. */
export function removalsFor(
  redirectUri: unknown,
  clients: Parameters<typeof allowedApps>[0],
): Removal[] {
  const known = typeof redirectUri === 'string' ? appWithCallback(redirectUri) : undefined;
  const editors = ['cursor', 'vscode'];
  const apps = known
    ? [known]
    : appCatalog().filter((app) => editors.includes(app.id) || allowedApps(clients).includes(app));
  const removals = apps.flatMap(({ name: app, remove: steps }) => (steps ? [{ app, steps }] : []));
  return known ? removals : [...removals, ...LOCAL_REMOVALS];
}

/** Of the apps that the page of the link explains. */
export function removalsOfLink(
  link: string,
  clients: Parameters<typeof allowedApps>[0],
): Removal[] {
  const hosted = appCatalog().flatMap(({ name, connectPage }) => (connectPage ? [name] : []));
  const removals = removalsFor(undefined, clients);
  return LOOPBACK.test(link) ? removals.filter(({ app }) => !hosted.includes(app)) : removals;
}

const LOOPBACK = /^https?:\/\/(localhost|127\.[\d.]+|\[::1\])[:/]/;

export function claudeCommand(link: string, name: string): string {
  return `claude mcp add --transport http ${serverName(name)} ${shellWord(link)}`;
}

/**
 * A command for bash or zsh with which a machine connects and prints the tools. It asks for the secret, so that the shell's history does not have
 * it, and mcp-remote reads it from the environment. One line: `read` would take a second one for the secret.
 */
export function machineCommand({ id, link }: { id: string; link: string }): string {
  const credentials = JSON.stringify({ client_id: id, client_secret: '${MCP_CLIENT_SECRET}' });
  return `read -rs MCP_CLIENT_SECRET && export MCP_CLIENT_SECRET && ${terminalCommand(link)} --client-credentials --static-oauth-client-info '${credentials}'`;
}

function terminalCommand(link: string): string {
  return `npx -y -p mcp-remote mcp-remote-client ${shellWord(link)}`;
}

/** Returns an mcp.json with a minted token. `url` is the only address that accepts the token. */
export function tokenExample(url: string, token: string): string {
  const gatehouse = { type: 'http', url, headers: { Authorization: `Bearer ${token}` } };
  return json({ mcpServers: { gatehouse } });
}

/** Uses only ASCII letters, digits and dashes, which are safe in addresses, files and shells. */
function serverName(name: string): string {
  const ascii = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  const words = ascii.match(/[a-z0-9]+/g) ?? ['gatehouse'];
  return words.join('-').slice(0, 40).replace(/-$/, '');
}

/** An IPv6 address has brackets, which shells expand. */
function shellWord(link: string): string {
  return /^[\w:/.-]+$/.test(link) ? link : `'${link.replaceAll("'", `'\\''`)}'`;
}

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}
