// Gatehouse with Redis some way off.
await import('./late-answers.ts');
await import('../../src/main.ts');
