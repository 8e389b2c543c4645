// The flags of the commands.
import { parseArgs } from 'node:util';

/** Prints the reason and exits with 2 if `read` throws, as for a wrong flag. */
export function readOrExit<Options>(read: () => Options): Options {
  try {
    return read();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  }
}

/** For the commands that have no other flags. */
export function readFlags(): { help: boolean; quick: boolean; write: boolean } {
  const flag = { type: 'boolean', default: false } as const;
  return readOrExit(() => parseArgs({ options: { help: flag, quick: flag, write: flag } }).values);
}
