import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, '../../src');

/** The arguments for Node to run a file of the source as `npm start` does, with the compile cache. Compiling dominates short commands. */
export function nodeArguments(name: string): string[] {
  return ['--import', join(SOURCE, 'compile-cache.js'), join(SOURCE, name)];
}
