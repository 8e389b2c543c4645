// Loaded with `node --import` into a process of the tests, which says what its heap holds when the parent asks.
import { queryObjects } from 'node:v8';
import Koa from 'koa';

export const ASK_FOR_MEMORY = { type: 'collect' };
/** After a full collection: bytes of the heap, and the apps of hosts, of which each version of the settings has its own. */
export type HeldMemory = { bytes: number; apps: number };

process.on('message', ({ type }: { type?: string }) => {
  if (type !== ASK_FOR_MEMORY.type) return;
  const apps = queryObjects(Koa, { format: 'count' });
  const held: HeldMemory = { bytes: process.memoryUsage().heapUsed, apps };
  process.send?.(held);
});
