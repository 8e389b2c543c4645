// Publish and subscribe in a SQLite file: messages wait a minute in a table that every subscribed process looks at.
import { EventEmitter } from 'node:events';
import type { DatabaseSync } from 'node:sqlite';
import type { ByteStore } from './byte-store.ts';
import type { Logger } from './logger.ts';
import type { Commit } from './sqlite-commits.ts';

const LOOK_EVERY_MS = 100;
const KEPT_SECONDS = 60;

type Channels = Pick<ByteStore, 'publish' | 'subscribe'> & { close(): void };

export function openChannels(
  db: DatabaseSync,
  commit: Commit,
  now: () => number,
  logger: Logger | undefined,
): Channels {
  const newest = db.prepare('SELECT coalesce(max(id), 0) AS id FROM message');
  const select = db.prepare('SELECT id, channel, body FROM message WHERE id > ? ORDER BY id');
  const insert = db.prepare('INSERT INTO message (channel, body, expires) VALUES (?, ?, ?)');
  const listeners = new EventEmitter().setMaxListeners(0);
  let seen = 0;
  let looking: NodeJS.Timeout | undefined;

  const unseen = () => {
    try {
      return db.isOpen ? select.all(seen) : [];
    } catch (cause) {
      logger?.warn({ err: cause }, 'messages of other processes could not be read from the store');
      return [];
    }
  };
  const look = () => {
    for (const { id, channel, body } of unseen()) {
      seen = Number(id);
      listeners.emit(String(channel), Buffer.from(body as Uint8Array));
    }
  };
  return {
    async publish(channel, message) {
      await commit(() => insert.run(channel, message, now() + KEPT_SECONDS));
      if (looking) setImmediate(look);
    },
    async subscribe(channel, listener) {
      if (looking) look();
      else seen = Number(newest.get()?.['id']);
      listeners.on(channel, listener);
      looking ??= setInterval(look, LOOK_EVERY_MS).unref();
    },
    close() {
      clearInterval(looking);
    },
  };
}
