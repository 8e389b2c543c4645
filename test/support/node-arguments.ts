import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, '../../src');

/**
 * The arguments for Node to run a file of the source as `npm start` does, with the compile cache. Compiling dominates short commands. `more`
 * arguments come after the cache.
 */
export function nodeArguments(name: string, more: readonly string[] = []): string[] {
  return ['--import', join(SOURCE, 'compile-cache.js'), ...more, join(SOURCE, name)];
}
