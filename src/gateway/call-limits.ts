// Refuses calls beyond the limits on calls. Each limit that applies must allow a call.
import { recordAudit } from '../audit/audit.ts';
import {
  type CallLimit,
  type CallLimitSettings,
  haveLimits,
  type LimitedCaller,
  limitsOfCall,
  reachedKey,
} from '../connections/call-limits.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { membersOf } from '../json-values.ts';
import type { CallLimitKind } from '../observability/labels.ts';
import { lruCache } from '../lru-cache.ts';
import type { Services } from '../services.ts';
import { isWorkloadSubject } from '../settings/workloads.ts';
import { writeRate } from '../settings/limits.ts';
import type { AddedCalls } from '../store/call-windows.ts';
import type { WindowCount } from '../store/counters.ts';
import { connectionOf } from './authenticate.ts';
import { authorizeRequest, type RequiredLevel } from './authorize.ts';
import type { Access, AuthenticatedCall } from './call.ts';
import { noteLimited } from './call-audit.ts';
import { InBandError, inBandResponse } from './in-band-error.ts';
import { idOf } from './json-rpc.ts';

export type LimitCalls = (
  settings: CallLimitSettings,
  call: AuthenticatedCall,
  required: readonly (RequiredLevel | undefined)[],
) => Promise<void> | undefined;

type LimitServices = Parameters<typeof recordAudit>[0] &
  Pick<Services, 'store' | 'metrics' | 'logger' | 'now'>;

/** A message that counts, with the limits that it must keep. */
type Counted = { index: number; limits: CallLimit[] };

/** What each window has left for the messages of one call. */
type Budgets = Map<string, { limit: CallLimit; times: number; left: number; count: AddedCalls }>;

/**
 * Removes the messages that a limit refuses from the body, and adds the responses to them to the call. Throws an InBandError if none is left.
 * Returns undefined, and waits for nothing, if no limit applies.
 */
export function callLimits(services: LimitServices): LimitCalls {
  const { callWindows } = services.store;
  const noteReached = firstRefusals(services);

  /** The windows are counted side by side, with one wait. */
  const take = async (counted: readonly Counted[]): Promise<Budgets> => {
    const budgets: Budgets = new Map();
    for (const { limits } of counted)
      for (const limit of limits) {
        const known = budgets.get(limit.window.name);
        if (known) known.times += 1;
        else budgets.set(limit.window.name, { limit, times: 1, left: 0, count: NOTHING_COUNTED });
      }
    const all = [...budgets.values()];
    const counts = await callWindows.add(
      all.map(({ limit: { window }, times }) => ({ window, times })),
    );
    for (const [n, budget] of all.entries()) {
      const { limit, times } = budget;
      budget.count = counts[n] ?? NOTHING_COUNTED;
      const before = budget.count.count - times;
      budget.left = Math.min(Math.max(limit.window.count - before, 0), times);
    }
    return budgets;
  };
  const giveBack = (budgets: Budgets, made: readonly Counted[]) => {
    const used = new Map<string, number>();
    for (const { limits } of made)
      for (const { window } of limits) used.set(window.name, (used.get(window.name) ?? 0) + 1);
    for (const [name, { limit, times, count }] of budgets) {
      const unused = times - (used.get(name) ?? 0);
      // A window that ends now would lend the calls to the next one.
      if (unused > 0 && count.secondsLeft > GIVEN_BACK_UNTIL_SECONDS)
        void callWindows.giveBack(limit.window, unused, count);
    }
  };

  const limit = async (call: AuthenticatedCall, counted: readonly Counted[]) => {
    const budgets = await take(counted);
    // No window has less left than the body needs.
    if ([...budgets.values()].every(({ times, left }) => left === times)) return;
    const made: Counted[] = [];
    const refused = new Map<number, InBandError>();
    for (const message of counted) {
      const own = message.limits.flatMap(({ window }) => budgets.get(window.name) ?? []);
      const spent = own.filter(({ left }) => left === 0);
      const longest = spent.toSorted((a, b) => b.count.secondsLeft - a.count.secondsLeft)[0];
      if (longest) {
        refused.set(message.index, refusalOf(longest.limit, longest.count));
        for (const { limit, count } of spent) noteReached(call, limit, count);
        continue;
      }
      for (const budget of own) budget.left -= 1;
      made.push(message);
    }
    giveBack(budgets, made);
    if (refused.size > 0) refuse(call, refused);
  };
  return function limitCalls(settings, call, required) {
    const counted = countedMessages(settings, call, required);
    return counted.length === 0 ? undefined : limit(call, counted);
  };
}

const NOTHING: Counted[] = [];
const NOTHING_COUNTED: AddedCalls = { count: 0, secondsLeft: 0 };
const GIVEN_BACK_UNTIL_SECONDS = 1;

/** Requests that need a level and can be made. What is refused anyway does not count. */
function countedMessages(
  settings: CallLimitSettings,
  { caller, connector, mintedToken, body, handler }: AuthenticatedCall,
  required: readonly (RequiredLevel | undefined)[],
): Counted[] {
  const ownLimit = caller.calls ?? connector?.calls ?? mintedToken?.calls;
  if (ownLimit === undefined && !haveLimits(settings)) return NOTHING;
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  const limited = limitedCaller({ caller, connector, mintedToken } as Access);
  const counted = messages.flatMap((message, index) => {
    const { method, params } = membersOf(message);
    if (!required[index] || method === 'resources/subscribe') return [];
    const { name } = membersOf(params);
    const tool = method === 'tools/call' && typeof name === 'string' ? name : undefined;
    const limits = limitsOfCall(settings, limited, { level: caller.level, tool });
    return limits.length === 0 ? [] : [{ index, limits }];
  });
  const isAllowed = (needed: RequiredLevel | undefined) =>
    authorizeRequest(settings.levels, caller, needed).decision === 'allowed';
  if (handler.refusesOneByOne) return counted.filter(({ index }) => isAllowed(required[index]));
  return counted.length > 0 && required.every(isAllowed) ? counted : [];
}

function limitedCaller({ caller, connector, mintedToken }: Access): LimitedCaller {
  const { accountId, clientId, calls } = caller;
  const isMachine = isMachineSubject(accountId);
  return {
    accountId: isMachine || mintedToken ? undefined : accountId,
    connection: connectionOf(caller),
    connector,
    [isWorkloadSubject(accountId) ? 'workload' : 'machine']: isMachine
      ? { id: clientId, calls }
      : undefined,
    token: mintedToken,
    upstream: (connector ?? mintedToken).upstream,
  };
}

function refuse(call: AuthenticatedCall, refused: ReadonlyMap<number, InBandError>): void {
  const messages: unknown[] = Array.isArray(call.body) ? call.body : [call.body];
  const [first] = refused.values();
  if (first && refused.size === messages.length) throw longestOf([...refused.values()], first);
  call.limited = [...refused].flatMap(([index, error]) => {
    const id = idOf(messages[index]);
    const { method } = membersOf(messages[index]);
    return id === undefined ? [] : [inBandResponse({ id, method: String(method) }, error)];
  });
  noteLimited(call, new Set(refused.keys()));
  call.body = messages.filter((_, index) => !refused.has(index));
}

function longestOf(errors: readonly InBandError[], first: InBandError): InBandError {
  return errors.reduce(
    (longest, each) => ((each.retryAfter ?? 0) > (longest.retryAfter ?? 0) ? each : longest),
    first,
  );
}

const WHOSE: Record<CallLimitKind, (of: string) => string> = {
  person: () => 'of this person, with all their apps together',
  connection: () => 'of this connection',
  level: (of) => `of this connection with the level ${of}`,
  tool: (of) => `of the tool ${of} by this connection`,
  connector: () => 'of this connect link, for all its connections together',
  machine: () => 'of this machine',
  workload: () => 'of this workload',
  token: () => 'of this token',
};

function refusalOf(
  { kind, of = '', window }: CallLimit,
  { secondsLeft }: WindowCount,
): InBandError {
  const retryAfter = Math.max(1, Math.ceil(secondsLeft));
  const limit = `the limit on the calls ${WHOSE[kind](of)} is reached (${writeRate(window)})`;
  const message = `${limit}, so nothing was done: call again in ${retryAfter} s, and not before`;
  return new InBandError(503, 'limit_reached', message, { retryAfter });
}

const MAX_KNOWN = 50_000;

/** Records the first refusal in each window, of all processes. */
function firstRefusals({ store, metrics, logger, now, ...services }: LimitServices) {
  const known = lruCache<number>(MAX_KNOWN);
  return function noteReached(call: AuthenticatedCall, limit: CallLimit, counted: WindowCount) {
    const { kind, of, window } = limit;
    const { secondsLeft } = counted;
    const end = now() + secondsLeft;
    // A window that was begun anew ends later.
    if (end - (known.get(window.name) ?? 0) < 1) return;
    known.set(window.name, end);
    const { caller, connector } = call;
    const record = async () => {
      if (!(await store.add(reachedKey(window), true, secondsLeft))) return;
      metrics.callLimitReached(kind);
      await recordAudit(
        { ...services, store, metrics, now },
        {
          event: 'limit_reached',
          account: caller.accountId,
          clientId: caller.clientId,
          connector: connector?.id,
          grantId: caller.grantId,
          arguments: { limit: kind, of, calls: writeRate(window) },
          outcome: 'refused',
        },
      );
    };
    record().catch((error: unknown) => {
      logger.warn({ err: error }, 'that a limit on calls was reached could not be recorded');
    });
  };
}
