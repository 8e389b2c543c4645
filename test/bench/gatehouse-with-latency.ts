// Gatehouse with delayed Redis replies.
await import('./redis-latency.ts');
await import('../../src/main.ts');
