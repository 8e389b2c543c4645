// Loaded with `node --import` into a process of the tests, which says what its heap holds when the parent asks.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export const ASK_FOR_MEMORY = { type: 'collect' };
/** Bytes of the heap after a full collection. */
export type HeldMemory = { heldBytes: number };

process.on('message', ({ type }: { type?: string }) => {
  if (type !== ASK_FOR_MEMORY.type) return;
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const held: HeldMemory = { heldBytes: process.memoryUsage().heapUsed };
  process.send?.(held);
});
