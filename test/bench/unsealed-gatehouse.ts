// Gatehouse with nothing sealed or hidden in its store, to see what that costs: this process is given another sealer by its module loader.
import { registerHooks } from 'node:module';

const PLAIN = new URL('plain-sealer.ts', import.meta.url).href;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === './seal.ts' ? { url: PLAIN, shortCircuit: true } : next(specifier, context),
});
await import('../../src/main.ts');
