// Gatehouse and, in the same process, its MCP server without authorization: calls to the two differ in nothing else.
await import('../../src/main.ts');
await import('./unprotected-server.ts');
