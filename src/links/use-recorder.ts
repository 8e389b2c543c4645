// Records connector uses after the response is sent. Concurrent exchanges on one connector share a write.
import type { Store } from '../store/store.ts';
import { commitUses, type RedeemedUse } from './connectors.ts';

export type UseRecorder = {
  /** Call once per exchanged code. */
  record(connector: string, use: RedeemedUse): void;
  /** Resolves when every use is written. */
  close(): Promise<void>;
};

/**
 * If the process stops before the write, the use stays reserved. Once the reservation expires, `commitExchangedUses` commits it, because the
 * grant records the exchange.
 */
export function openUseRecorder(store: Store, onError: (error: unknown) => void): UseRecorder {
  const waiting = new Map<string, RedeemedUse[]>();
  const writing = new Map<string, Promise<void>>();
  const write = async (connector: string) => {
    for (let uses = waiting.get(connector); uses; uses = waiting.get(connector)) {
      waiting.delete(connector);
      await commitUses(store, connector, uses).catch(onError);
    }
    writing.delete(connector);
  };
  return {
    record(connector, use) {
      waiting.set(connector, [...(waiting.get(connector) ?? []), use]);
      if (!writing.has(connector)) writing.set(connector, write(connector));
    },
    async close() {
      await Promise.all(writing.values());
    },
  };
}
