// Instructions for adding a connect link or a minted token to common apps.
import { quoted } from './commands/terminal.ts';

export type Instruction = {
  client: 'claude' | 'claude-code' | 'vs-code' | 'cursor' | 'mcp-remote';
  /** The text to copy. */
  text: string;
};

/** `name` is the name of the connector. Files and commands use a short form of it. */
export function instructionsFor(link: string, name: string): Instruction[] {
  const server = serverName(name);
  return [
    { client: 'claude', text: link },
    { client: 'claude-code', text: claudeCommand(link, name) },
    { client: 'vs-code', text: json({ servers: { [server]: { type: 'http', url: link } } }) },
    { client: 'cursor', text: json({ mcpServers: { [server]: { url: link } } }) },
    {
      client: 'mcp-remote',
      text: json({
        mcpServers: { [server]: { command: 'npx', args: ['-y', 'mcp-remote', link] } },
      }),
    },
  ];
}

export function claudeCommand(link: string, name: string): string {
  return `claude mcp add --transport http ${serverName(name)} ${quoted(link)}`;
}

/** Returns an mcp.json with a minted token. `url` is the only address that accepts the token. */
export function tokenExample(url: string, token: string): string {
  const gatehouse = { type: 'http', url, headers: { Authorization: `Bearer ${token}` } };
  return json({ mcpServers: { gatehouse } });
}

/** Uses only ASCII letters, digits and dashes, which are safe in files and shells. */
function serverName(name: string): string {
  const ascii = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  const words = ascii.match(/[a-z0-9]+/g) ?? ['gatehouse'];
  return words.join('-').slice(0, 40).replace(/-$/, '');
}

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}
