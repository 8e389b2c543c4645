// The bare engine with delayed answers of Redis. Arguments as for bare-engine.ts.
await import('./redis-latency.ts');
await import('./bare-engine.ts');
