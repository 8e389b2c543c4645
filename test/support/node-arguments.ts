// How tests start the programs of the source: as `npm start` does, with what was compiled for an earlier one.
import { join } from 'node:path';

const SOURCE = join(import.meta.dirname, '../../src');

/** The arguments of Node; `name` is that of a file of the source. Compiling takes most of the time of a short command. */
export function nodeArguments(name: string): string[] {
  return ['--import', join(SOURCE, 'compile-cache.js'), join(SOURCE, name)];
}
