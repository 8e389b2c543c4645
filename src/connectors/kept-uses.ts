// Uses kept after the answer: a code exchange does not wait for the connector's record, and exchanges that come together share a write.
import type { Store } from '../store/store.ts';
import { keepTakenUses, type TakenUse } from './connectors.ts';

export type UseKeeper = {
  /** To be called once per code that was exchanged. */
  keep(connector: string, use: TakenUse): void;
  /** Resolves when all are written. */
  close(): Promise<void>;
};

/**
 * Until a use of a limited connector is written its reservation stands; after that its grant says that it was exchanged (`settleUses`). So a process
 * that dies in between gives nothing back.
 */
export function openUseKeeper(store: Store, onError: (error: unknown) => void): UseKeeper {
  const waiting = new Map<string, TakenUse[]>();
  const writing = new Map<string, Promise<void>>();
  const write = async (connector: string) => {
    for (let uses = waiting.get(connector); uses; uses = waiting.get(connector)) {
      waiting.delete(connector);
      await keepTakenUses(store, connector, uses).catch(onError);
    }
    writing.delete(connector);
  };
  return {
    keep(connector, use) {
      waiting.set(connector, [...(waiting.get(connector) ?? []), use]);
      if (!writing.has(connector)) writing.set(connector, write(connector));
    },
    async close() {
      await Promise.all(writing.values());
    },
  };
}
