// Delivers the audit log as the settings in force say, after a reload as well.
import { isDeepStrictEqual } from 'node:util';
import type { BackgroundLoop } from '../../background-loop.ts';
import type { Settings } from '../../settings/settings.ts';
import { type DeliveryServices, startAuditDelivery } from './delivery.ts';

type Followed = Pick<Settings, 'audit' | 'forwardProxy'>;

export type FollowedDelivery = {
  /** Replaces what runs, in the background, if the settings of it changed. */
  follow(settings: Followed, services: DeliveryServices): void;
  stop(): Promise<void>;
};

export function followDelivery(): FollowedDelivery {
  let followed: Followed | undefined;
  let running: Promise<BackgroundLoop | undefined> = Promise.resolve(undefined);
  const replace = (start: () => Promise<BackgroundLoop | undefined>) => {
    running = running.then(async (before) => {
      await before?.stop();
      return start();
    });
  };
  return {
    follow({ audit, forwardProxy }, services) {
      if (isDeepStrictEqual(followed, { audit, forwardProxy })) return;
      const isFirst = followed === undefined;
      followed = { audit, forwardProxy };
      if (isFirst && audit.delivery.length === 0) return;
      replace(async () => startAuditDelivery(services, { targets: audit.delivery, forwardProxy }));
    },
    async stop() {
      replace(async () => undefined);
      await running;
    },
  };
}
