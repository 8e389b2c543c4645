// Messages through Redis, heard again after every interruption: they carry prompt notice of changes, so losing them must not end anything.
import type { ByteStore } from './byte-store.ts';
import type { Logger } from './logger.ts';
import type { RedisClient } from './redis-client.ts';

const SUBSCRIBE_AGAIN_MS = 1000;

export function redisChannels(
  client: RedisClient,
  subscriber: RedisClient,
  logger: Logger | undefined,
): Pick<ByteStore, 'publish' | 'subscribe'> {
  const subscribed = new Set<string>();
  const subscribeAgain = async () => {
    if (subscriber.status !== 'ready' || subscribed.size === 0) return;
    try {
      await subscriber.subscribe(...subscribed);
    } catch (error) {
      logger?.warn({ err: error }, 'notice of changes is not heard, trying again');
      setTimeout(subscribeAgain, SUBSCRIBE_AGAIN_MS).unref();
    }
  };
  subscriber.on('ready', subscribeAgain);

  return {
    async publish(channel, message) {
      await client.publish(channel, message);
    },
    async subscribe(channel, listener) {
      await subscriber.subscribe(channel);
      subscribed.add(channel);
      subscriber.on('messageBuffer', (from: Buffer, message: Buffer) => {
        if (from.toString() === channel) listener(message);
      });
    },
  };
}
