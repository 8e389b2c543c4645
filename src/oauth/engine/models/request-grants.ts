// The grant records of one engine request: read once, changed and ended by its hooks.
import { Provider } from 'oidc-provider';
import { DEVICE_CODE } from '../../../clients/clients.ts';
import type { GrantRecord } from '../../../connections/grant-record.ts';
import {
  announceGrant,
  endGrant,
  findGrant,
  type FoundGrant,
  grantKey,
  updateGrant,
} from '../../../connections/grants.ts';
import { hasValidMac, parseOpaqueToken } from '../../../connections/opaque-token.ts';
import type { Reason } from '../../../connections/reasons.ts';
import type { KEEP } from '../../../store/store.ts';
import { currentRequest, type EngineRequest, readAhead } from '../engine-request.ts';
import { invalidGrant } from '../errors.ts';
import type { GrantModelOptions } from './options.ts';

export type RequestGrants = ReturnType<typeof requestGrants>;

/** Reads the record once per engine request, in which the engine finds the token, then its grant, then changes it. */
export function requestGrants({ store, tokenKeys, lifetimes, now, onEnded }: GrantModelOptions) {
  const remember = (
    request: EngineRequest | undefined,
    id: string,
    found: FoundGrant | undefined,
  ) => {
    if (request) request.grant = { id, found };
    return found;
  };
  const remembered = (request: EngineRequest | undefined, id: string) =>
    request?.grant?.id === id ? request.grant : undefined;
  const seen = (id: string) => remembered(currentRequest(), id)?.found;
  const load = async (id: string) =>
    seen(id) ??
    remember(currentRequest(), id, await readAhead(grantKey(id), () => findGrant(store, id)));
  return {
    seen,
    load,
    async change(
      id: string,
      next: (record: GrantRecord) => GrantRecord | typeof KEEP,
      request = currentRequest(),
    ) {
      const seenBefore = remembered(request, id)?.found;
      const options = { lifetimes, now: now(), ...(seenBefore ? { seen: seenBefore } : {}) };
      return remember(request, id, await updateGrant(store, id, next, options));
    },
    async end(id: string, reason: Reason) {
      // The engine destroys a token and then its grant, which are one record here.
      const request = currentRequest();
      const known = remembered(request, id);
      if (known && !known.found) return;
      const ended = await endGrant(store, id, reason, now());
      remember(request, id, undefined);
      if (ended) await Promise.all([announceGrant(store, id), onEnded(id, ended, reason)]);
    },
    /** Finds the record of a presented code or refresh token with a valid MAC. */
    async resolve(value: string, kind: 'code' | 'refresh token') {
      const name = parseOpaqueToken(value);
      if (!name || (name.part === 'code') !== (kind === 'code')) return undefined;
      const found = await load(name.grantId);
      return found && hasValidMac(tokenKeys, name, found.value.seed)
        ? { name, record: found.value }
        : undefined;
    },
  };
}

/** The reason why the engine ends a grant, derived from the request. */
export function requestEndReason(): Reason {
  const { route, params } = Provider.ctx?.oidc ?? {};
  if (route === 'revocation') return 'revoked_by_client';
  const isCode = params?.grant_type === 'authorization_code' || params?.grant_type === DEVICE_CODE;
  return isCode ? 'code_replay' : 'refresh_replay';
}

export function grantIdOf(value: string): string {
  const name = parseOpaqueToken(value);
  if (!name) throw invalidGrant('not one of our tokens');
  return name.grantId;
}
