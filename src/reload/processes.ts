// Finds the processes that use a store, without being one.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { membersOf } from '../json-values.ts';
import { openNotice } from '../store/instrumented-store.ts';
import type { Store } from '../store/store.ts';
import { PROCESSES_CHANNEL } from './reloads.ts';

export type Processes = {
  /** The names of those that were heard so far and have not stopped. */
  heard(): string[];
  close(): void;
};

/** Longer than a busy process needs for an answer. */
const WAIT_MS = 3000;
const REPEAT_MS = 500;

/** Asks all processes to announce themselves. Resolves at the first answer, else after `waitMs`; later ones are heard too. */
export async function listenForProcesses(store: Store, waitMs = WAIT_MS): Promise<Processes> {
  const names = new Map<string, string>();
  const self = randomUUID();
  const close = await store.subscribe(PROCESSES_CHANNEL, (stamped) => {
    const { message: text } = openNotice(stamped, 0);
    const { from, message } = membersOf(JSON.parse(text));
    const { type, name } = membersOf(message);
    if (from === self) return;
    if (type === 'state') names.set(String(from), String(name));
    if (type === 'gone') names.delete(String(from));
  });
  const started = performance.now();
  const message = JSON.stringify({ from: self, message: { type: 'who' } });
  while (names.size === 0 && performance.now() - started < waitMs) {
    await store.publish(PROCESSES_CHANNEL, message).catch(() => undefined);
    await delay(Math.min(REPEAT_MS, waitMs));
  }
  return { heard: () => [...names.values()], close };
}
