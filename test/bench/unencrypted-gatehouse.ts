// Gatehouse with nothing encrypted or hidden in its store, to see what that costs: this process is given another encryption by its module loader.
import { registerHooks } from 'node:module';

const PLAIN = new URL('plaintext-encryption.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === './encryption.ts' ? { url: PLAIN, shortCircuit: true } : next(specifier, context),
});
await import('../../src/main.ts');
