// Gatehouse and, in the same process, its MCP server without authorization, so that only authorization differs.
await import('../../src/main.ts');
await import('./unprotected-server.ts');
