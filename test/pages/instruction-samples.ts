// Sample instructions for adding a connect link to apps, on its own page and in the console.
import type { Instruction } from '../../src/pages/console-values.ts';

const LINK = 'https://mcp.example.com/connect/4qR8sT1vWxYz2aBcD3eFgH/mcp';

const TEXTS: Omit<Instruction, 'name'>[] = [
  { client: 'claude', text: LINK },
  { client: 'claude-code', text: `claude mcp add --transport http club-numbers ${LINK}` },
  {
    client: 'vs-code',
    text: `{\n  "servers": {\n    "club-numbers": { "type": "http", "url": "${LINK}" }\n  }\n}`,
  },
  {
    client: 'cursor',
    text: `{\n  "mcpServers": {\n    "club-numbers": { "url": "${LINK}" }\n  }\n}`,
  },
  { client: 'codex', text: `codex mcp add club-numbers --url ${LINK}` },
  { client: 'gemini-cli', text: `gemini mcp add --transport http club-numbers ${LINK}` },
  {
    client: 'mcp-remote',
    text: `{\n  "mcpServers": {\n    "club-numbers": { "command": "npx", "args": ["-y", "mcp-remote", "${LINK}"] }\n  }\n}`,
  },
  { client: 'terminal', text: `npx -y -p mcp-remote mcp-remote-client ${LINK}` },
  { client: 'other', text: LINK },
];

export const INSTRUCTIONS: Instruction[] = TEXTS.map((text) => ({ ...text, name: 'club-numbers' }));
