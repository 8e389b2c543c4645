// Gatehouse and, in the same process, its MCP server without authorization, so that only authorization differs. Arguments: port and log level.
await import('../../src/main.ts');
const { serveUnprotected } = await import('./unprotected-server.ts');
const [, , port, logLevel = 'warn'] = process.argv;
await serveUnprotected(Number(port), logLevel);
