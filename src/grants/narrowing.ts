// Reduces the scope of a grant: lowers its level, or removes the refresh token. Pure: no I/O.
import { isAtLeast, isLevel, type Level, OFFLINE_ACCESS } from '../permission-level.ts';
import {
  allowsLevel,
  type EnginePayload,
  grantedLevel,
  type GrantRecord,
  grantsRefresh,
  lastUseOf,
} from './grant-record.ts';

/** The most that the grant may allow. `stays`: whether it keeps its refresh token. */
export type Limit = { level: Level; stays: boolean };

/** Undefined if the grant is already within the limit. */
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

/** Access tokens stay valid until they expire. The record then lasts as long as the last one issued. */
function withoutRefresh(record: GrantRecord): GrantRecord {
  const usedAt = lastUseOf(record);
  const { refresh, code, ...rest } = withScopes(record, (scope) => scope !== OFFLINE_ACCESS);
  if (!refresh) return code ? { ...rest, code } : rest;
  // A refresh may have removed the code.
  const used = code ?? { payload: { exp: refresh.payload.iat } };
  return { ...rest, code: { ...used, ...(usedAt === undefined ? {} : { usedAt }) } };
}

/** Filters the scope of the grant, its code and its refresh token. */
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
