// Gatehouse with no encryption in its store. The module loader replaces `store/seal.ts`.
import { registerHooks } from 'node:module';

const PLAIN = new URL('no-encryption.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === './seal.ts' ? { url: PLAIN, shortCircuit: true } : next(specifier, context),
});
await import('../../src/main.ts');
