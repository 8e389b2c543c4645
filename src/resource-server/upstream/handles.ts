// Handles that the upstream gives out (session ids, event ids, request states), bound to the caller that got them: nobody else can use one.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from '../../keys/key-ring.ts';
import { type Level, levelsUpTo } from '../../permission-level.ts';
import type { Caller } from '../level.ts';

/** `state`: what a client sends back when it repeats a request (`requestState`, MCP 2026-07-28). */
export type HandleKind = 'session' | 'event' | 'state';

export type Handles = {
  bind(kind: HandleKind, caller: Caller, handle: string): string;
  /**
   * Undefined for what was not bound for this account, client and connector; and for an event or a state of a higher level than the caller's:
   * after the event may come, and in the state may be, what that level sees.
   */
  unbind(kind: HandleKind, caller: Caller, bound: string): string | undefined;
};

type Owner = Pick<Caller, 'accountId' | 'clientId' | 'connector'> & { level?: Level };

/** Nothing is kept: what the client gets is the handle and a MAC over it and its owner. */
export function openHandles(keys: KeyRing, upstream: string): Handles {
  const marks = (kind: HandleKind, owner: Owner, handle: string) => {
    const { accountId, clientId, connector = '', level = '' } = owner;
    const text = JSON.stringify([kind, upstream, accountId, clientId, connector, level, handle]);
    return keys.map((key) => createHmac('sha256', key).update(text).digest('base64url'));
  };
  return {
    bind: (kind, caller, handle) => `${marks(kind, ownerOf(kind, caller), handle)[0]}.${handle}`,
    unbind(kind, caller, bound) {
      const dot = bound.indexOf('.');
      const [mark, handle] = [bound.slice(0, Math.max(dot, 0)), bound.slice(dot + 1)];
      const isOwn = levelsUpTo(caller.level)
        .flatMap((level) => marks(kind, ownerOf(kind, { ...caller, level }), handle))
        .some((own) => isSame(own, mark));
      return isOwn ? handle : undefined;
    },
  };
}

/** A session is the same one at every level: each call in it is judged. */
function ownerOf(kind: HandleKind, { level, ...caller }: Caller): Owner {
  return kind === 'session' ? caller : { ...caller, level };
}

function isSame(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)];
  return first.length === second.length && timingSafeEqual(first, second);
}
