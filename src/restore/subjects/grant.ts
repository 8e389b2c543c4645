// Connections that ended or got a lower level. None comes back.
import { endGrant, findGrant, findStoredGrant, narrowGrant } from '../../connections/grants.ts';
import { settleUse } from '../../connections/connections.ts';
import { grantLifetimes } from '../../connections/grant-lifetime.ts';
import { allowsLevel, grantedLevel, isLive } from '../../connections/grant-record.ts';
import { isReason } from '../../connections/reasons.ts';
import { isLevel } from '../../permission-levels.ts';
import { detailsOf, type Subject } from './subject.ts';

export const connectionEnd: Subject = {
  idIn: ({ grantId }) => grantId,
  async plan({ services: { store, now } }, id, items) {
    if (!isLive(await findStoredGrant(store, id))) return undefined;
    const { reason, event = '' } = items[0] ?? {};
    const known = [reason ?? '', event].find(isReason) ?? 'revoked_by_administrator';
    return async () => {
      const ended = await endGrant(store, id, known, now());
      if (ended) await settleUse(store, id, ended);
    };
  },
};

/** The last of the changes decides: a level that was raised after it was lowered is allowed again. */
export const connectionLevel: Subject = {
  idIn: ({ grantId }) => grantId,
  async plan({ settings, services: { store, now } }, id, items) {
    const { level } = detailsOf(items.at(-1) ?? { time: '', event: '', outcome: '' });
    const { levels } = settings;
    const record = (await findGrant(store, id))?.value;
    if (!record || !isLevel(levels, level)) return undefined;
    if (grantedLevel(record) === level || !allowsLevel(levels, record, level)) return undefined;
    const lifetimes = grantLifetimes(settings.lifetimes);
    return async () => {
      await narrowGrant(store, levels, id, { level, stays: true }, { lifetimes, now: now() });
    };
  },
};
