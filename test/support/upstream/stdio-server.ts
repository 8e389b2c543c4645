// An MCP server that speaks stdio, as a program.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const server = new Server({ name: 'notes', version: '1.0.0' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [
    {
      name: 'read_notes',
      inputSchema: { type: 'object' as const },
      annotations: { readOnlyHint: true },
    },
    { name: 'delete_notes', inputSchema: { type: 'object' as const } },
  ],
}));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({
  content: [{ type: 'text' as const, text: `called ${params.name} over stdio` }],
}));
await server.connect(new StdioServerTransport());
