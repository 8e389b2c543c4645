// Connections that ended or got a lower level. None comes back.
import { endGrant, findGrant, findStoredGrant, narrowGrant } from '../../connections/grants.ts';
import { settleUse } from '../../connections/connections.ts';
import { grantLifetimes } from '../../connections/grant-lifetime.ts';
import { allowsLevel, grantedLevel, isLive } from '../../connections/grant-record.ts';
import { isReason } from '../../connections/reasons.ts';
import { isLevel, lowest } from '../../permission-levels.ts';
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

/**
 * The lowest level since it was last raised decides. That is not always the last one: a change that was interrupted is recorded later than others,
 * and perhaps was not made.
 */
export const connectionLevel: Subject = {
  idIn: ({ grantId }) => grantId,
  async plan({ settings, services: { store, now } }, id, items) {
    const { levels } = settings;
    const raisedAt = items.findLastIndex(({ event }) => event === 'level_raised');
    const [first, ...others] = items
      .slice(Math.max(raisedAt, 0))
      .map((item) => detailsOf(item)['level'])
      .filter((found) => isLevel(levels, found));
    const record = (await findGrant(store, id))?.value;
    if (!record || first === undefined) return undefined;
    const level = lowest(levels, first, ...others);
    if (grantedLevel(record) === level || !allowsLevel(levels, record, level)) return undefined;
    const lifetimes = grantLifetimes(settings.lifetimes);
    return async () => {
      await narrowGrant(store, levels, id, { level, stays: true }, { lifetimes, now: now() });
    };
  },
};
