// How to add a connect link or a minted token to each of the apps people use: what to paste where.
import { quoted } from './commands/terminal.ts';

export type Instruction = {
  client: 'claude' | 'claude-code' | 'vs-code' | 'cursor' | 'mcp-remote';
  /** What to copy. */
  text: string;
};

/** `name` is the connector's; in files and commands a short form of it is what the app calls the link. */
export function instructionsFor(link: string, name: string): Instruction[] {
  const short = shortName(name);
  return [
    { client: 'claude', text: link },
    { client: 'claude-code', text: claudeCommand(link, name) },
    { client: 'vs-code', text: json({ servers: { [short]: { type: 'http', url: link } } }) },
    { client: 'cursor', text: json({ mcpServers: { [short]: { url: link } } }) },
    {
      client: 'mcp-remote',
      text: json({ mcpServers: { [short]: { command: 'npx', args: ['-y', 'mcp-remote', link] } } }),
    },
  ];
}

export function claudeCommand(link: string, name: string): string {
  return `claude mcp add --transport http ${shortName(name)} ${quoted(link)}`;
}

/** An mcp.json with a minted token, for `url`, the one address that takes it. */
export function tokenExample(url: string, token: string): string {
  const server = { type: 'http', url, headers: { Authorization: `Bearer ${token}` } };
  return json({ mcpServers: { gatehouse: server } });
}

/** Letters, digits and dashes: safe in every file and shell. */
function shortName(name: string): string {
  const ascii = name.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  const words = ascii.match(/[a-z0-9]+/g) ?? ['gatehouse'];
  return words.join('-').slice(0, 40).replace(/-$/, '');
}

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}
