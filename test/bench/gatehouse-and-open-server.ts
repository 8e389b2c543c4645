// Gatehouse, and in the same process its MCP server open to everybody, so that calls to both differ in nothing but authorization.
await import('../../src/main.ts');
await import('./open-server.ts');
