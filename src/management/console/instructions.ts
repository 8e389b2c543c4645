// How to add a connect link to each of the apps people use: what to paste where.

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
    { client: 'claude-code', text: `claude mcp add --transport http ${short} ${link}` },
    { client: 'vs-code', text: json({ servers: { [short]: { type: 'http', url: link } } }) },
    { client: 'cursor', text: json({ mcpServers: { [short]: { url: link } } }) },
    {
      client: 'mcp-remote',
      text: json({ mcpServers: { [short]: { command: 'npx', args: ['-y', 'mcp-remote', link] } } }),
    },
  ];
}

/** Letters, digits and dashes: safe in every file and shell. */
function shortName(name: string): string {
  const words =
    name
      .normalize('NFKD')
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  return words.join('-').slice(0, 40) || 'gatehouse';
}

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}
