import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, '../../src');

/**
 * The arguments for Node to run the command line with these words, and with the compile cache: compiling dominates short commands. `more`
 * arguments come after the cache.
 */
export function nodeArguments(words: readonly string[], more: readonly string[] = []): string[] {
  const cache = join(SOURCE, 'compile-cache.js');
  return ['--import', cache, ...more, join(SOURCE, 'cli.ts'), ...words];
}
