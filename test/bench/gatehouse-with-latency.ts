// Gatehouse with delayed Redis replies.
await import('./redis-latency.ts');
const { runServer } = await import('../../src/main.ts');
await runServer();
