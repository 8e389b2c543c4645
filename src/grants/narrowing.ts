// Taking back a part of what a grant allows: the levels above one, or the refresh token. Pure: no I/O.
import { isAtLeast, isLevel, type Level, OFFLINE_ACCESS } from '../permission-level.ts';
import {
  allowsLevel,
  type EnginePayload,
  grantedLevel,
  type GrantRecord,
  grantsRefresh,
  lastUseOf,
} from './grant-record.ts';

/** The most that is left. `stays`: whether a refresh token that was granted is kept. */
export type Limit = { level: Level; stays: boolean };

/** Undefined when the grant allows no more than that already. */
export function narrowed(record: GrantRecord, { level, stays }: Limit): GrantRecord | undefined {
  const isHigher = allowsLevel(record, level) && grantedLevel(record) !== level;
  const isLonger = grantsRefresh(record) && !stays;
  if (!isHigher && !isLonger) return undefined;
  const lowered = isHigher ? withScopes(record, (scope) => isUpTo(level, scope)) : record;
  return isLonger ? withoutRefresh(lowered) : lowered;
}

function isUpTo(level: Level, scope: string): boolean {
  return !isLevel(scope) || isAtLeast(level, scope);
}

/** Access tokens stay valid until they expire, which is counted from the last one issued. */
function withoutRefresh(record: GrantRecord): GrantRecord {
  const usedAt = lastUseOf(record);
  const { refresh, code, ...rest } = withScopes(record, (scope) => scope !== OFFLINE_ACCESS);
  if (!refresh) return code ? { ...rest, code } : rest;
  // The code may have been dropped after a refresh.
  const used = code ?? { payload: { exp: refresh.payload.iat } };
  return { ...rest, code: { ...used, ...(usedAt === undefined ? {} : { usedAt }) } };
}

/** In the grant and in all that is still to be issued under it. */
function withScopes(record: GrantRecord, isKept: (scope: string) => boolean): GrantRecord {
  const { grant, code, refresh } = record;
  const keep = (scope = '') => scope.split(' ').filter(isKept).join(' ');
  const kept = <Issued extends EnginePayload>(payload: Issued): Issued => ({
    ...payload,
    scope: keep(String(payload.scope ?? '')),
  });
  const resources = Object.entries(grant.resources ?? {});
  return {
    ...record,
    grant: {
      ...grant,
      openid: { scope: keep(grant.openid?.scope) },
      resources: Object.fromEntries(resources.map(([resource, scope]) => [resource, keep(scope)])),
    },
    ...(code ? { code: { ...code, payload: kept(code.payload) } } : {}),
    ...(refresh ? { refresh: { ...refresh, payload: kept(refresh.payload) } } : {}),
  };
}
