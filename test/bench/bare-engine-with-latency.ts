// The bare engine with delayed Redis replies. Arguments as for bare-engine.ts.
await import('./redis-latency.ts');
await import('./bare-engine.ts');
