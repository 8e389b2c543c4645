// The bare engine with Redis some way off; arguments as without.
await import('./late-answers.ts');
await import('./bare-engine.ts');
