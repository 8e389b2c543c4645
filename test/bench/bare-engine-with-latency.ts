// The bare engine with delayed Redis replies. Arguments as for bare-engine.ts.
await import('./redis-latency.ts');
const { serveBareEngine } = await import('./bare-engine.ts');
const [, , port, redisUrl] = process.argv;
await serveBareEngine(Number(port), redisUrl);
process.once('SIGTERM', () => process.exit());
