import { loadSigningKeys, rotateSigningKeys } from '../../keys/signing-keys.ts';
import { type Subject, timeOf } from './subject.ts';

/** The item is written after the rotation, maybe with the clock of another process. */
const CLOCK_SECONDS = 60;

/** Keys that were replaced at once may be known to somebody. */
export const signingKeys: Subject = {
  idIn: ({ reason }) => (reason === 'at_once' ? 'all' : undefined),
  async plan({ settings, services: { store, now } }, _id, items) {
    const at = timeOf(items.at(-1) ?? { time: '' });
    const keys = await loadSigningKeys(store, now());
    const isNewer = keys.every(({ signsFrom }) => signsFrom >= at - CLOCK_SECONDS);
    if (isNewer) return undefined;
    const accessTokenLifetime = settings.lifetimes.accessToken;
    return async () => {
      await rotateSigningKeys(store, { accessTokenLifetime, atOnce: true }, now());
    };
  },
  hint: async () => 'the signing keys were replaced at once: mint tokens again',
};
