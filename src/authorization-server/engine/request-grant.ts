// The grant record of one engine request: read once, then updated and ended through this module.
import type { KeyObject } from 'node:crypto';
import { Provider, type KoaContextWithOIDC } from 'oidc-provider';
import type { Lifetimes } from '../../grants/grant-lifetime.ts';
import type { GrantRecord } from '../../grants/grant-record.ts';
import {
  announceGrant,
  endGrant,
  findGrant,
  type FoundGrant,
  updateGrant,
} from '../../grants/grants.ts';
import type { Reason } from '../../grants/reasons.ts';
import { hasValidMac, parseOpaqueToken } from '../../grants/opaque-token.ts';
import type { KEEP, Store } from '../../store/store.ts';
import { invalidGrant } from './errors.ts';

export type RequestGrantOptions = {
  store: Store;
  /** `[0]` signs codes and refresh tokens; all verify. */
  tokenKeys: readonly KeyObject[];
  lifetimes: Lifetimes;
  now: () => number;
  /** Called once per ended grant. */
  onEnded: (grantId: string, record: GrantRecord, reason: Reason) => Promise<void>;
};

export type RequestGrants = ReturnType<typeof requestGrants>;

/** What this server keeps of one engine request. */
type RequestState = {
  /** The grant that was read or written last. */
  grant?: { id: string; found: FoundGrant | undefined };
  redemption?: Redemption;
};

/** The redemption of a code. `lastHook`: the engine hook after which nothing can fail, so it writes. */
export type Redemption = {
  grantId: string;
  lastHook: 'code consumed' | 'proof consumed' | 'refresh token saved';
};

const states = new WeakMap<object, RequestState>();

export function requestState(ctx: KoaContextWithOIDC): RequestState {
  const state = states.get(ctx) ?? {};
  states.set(ctx, state);
  return state;
}

/** Reads the record once per request: the engine finds the token, then its grant, then changes it. */
export function requestGrants({ store, tokenKeys, lifetimes, now, onEnded }: RequestGrantOptions) {
  const request = (): KoaContextWithOIDC | undefined => Provider.ctx;

  const remember = (id: string, found: FoundGrant | undefined) => {
    const ctx = request();
    if (ctx) requestState(ctx).grant = { id, found };
    return found;
  };
  const remembered = (id: string) => {
    const ctx = request();
    const last = ctx && requestState(ctx).grant;
    return last?.id === id ? last : undefined;
  };
  const seen = (id: string) => remembered(id)?.found;
  const load = async (id: string) => seen(id) ?? remember(id, await findGrant(store, id));

  return {
    seen,
    load,
    async change(id: string, next: (record: GrantRecord) => GrantRecord | typeof KEEP) {
      const seenBefore = seen(id);
      const options = { lifetimes, now: now(), ...(seenBefore ? { seen: seenBefore } : {}) };
      return remember(id, await updateGrant(store, id, next, options));
    },
    async end(id: string, reason: Reason) {
      // The engine destroys a token and then its grant, which are one record here.
      const known = remembered(id);
      if (known && !known.found) return;
      const ended = await endGrant(store, id, reason, now());
      remember(id, undefined);
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
  return params?.grant_type === 'authorization_code' ? 'code_replay' : 'refresh_replay';
}

export function grantIdOf(value: string): string {
  const name = parseOpaqueToken(value);
  if (!name) throw invalidGrant('not one of our tokens');
  return name.grantId;
}

export function requireRequest(): KoaContextWithOIDC {
  const ctx = Provider.ctx;
  if (!ctx) throw new Error('the engine used a token outside a request');
  return ctx;
}
