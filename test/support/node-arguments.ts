import { basename, join } from 'node:path';
import { builtProgram, type Preloaded } from './built-program.ts';

const SOURCE = join(import.meta.dirname, '../../src');

/** The arguments for Node to run the command line with these words, and with the compile cache: compiling dominates short commands. */
export function nodeArguments(
  words: readonly string[],
  preloaded: readonly Preloaded[] = [],
): string[] {
  return argumentsOf(builtProgram(), words, preloaded);
}

/** For tests of what is loaded: the built program has each module in a file with others. */
export function sourceArguments(words: readonly string[]): string[] {
  return argumentsOf(undefined, words, []);
}

function argumentsOf(
  built: string | undefined,
  words: readonly string[],
  preloaded: readonly Preloaded[],
): string[] {
  const cache = join(built ? join(built, 'src') : SOURCE, 'compile-cache.js');
  const cli = built ? join(built, 'dist/cli.js') : join(SOURCE, 'cli.ts');
  const modules = preloaded.map((name) =>
    built ? join(built, 'dist', `${basename(name)}.js`) : join(import.meta.dirname, `${name}.ts`),
  );
  return [...[cache, ...modules].flatMap((path) => ['--import', path]), cli, ...words];
}
