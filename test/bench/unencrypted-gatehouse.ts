// Gatehouse without encryption of the store, to measure its cost. A module hook replaces `encryption.ts`.
import { registerHooks } from 'node:module';

const PLAIN = new URL('plaintext-encryption.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === './encryption.ts' ? { url: PLAIN, shortCircuit: true } : next(specifier, context),
});
const { runServer } = await import('../../src/main.ts');
await runServer();
