// Gatehouse with delayed answers of Redis.
await import('./redis-latency.ts');
await import('../../src/main.ts');
