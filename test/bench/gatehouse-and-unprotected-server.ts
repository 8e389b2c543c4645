// Gatehouse and, in the same process, its MCP server without authorization, so that only authorization differs.
const { runServer } = await import('../../src/main.ts');
await runServer();
await import('./unprotected-server.ts');
