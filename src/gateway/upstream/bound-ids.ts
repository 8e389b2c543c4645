// Ids that the upstream issues, bound to the callers that got them. No other caller can use them.
import { createHmac } from 'node:crypto';
import { constantTimeEqual } from '../../constant-time.ts';
import type { KeyRing } from '../../store/stored-keys.ts';
import { isAtLeast, type Level, type Levels, levelsUpTo } from '../../permission-levels.ts';
import type { Store } from '../../store/store.ts';
import type { Caller } from '../authenticate.ts';
import { membersOf } from '../../json-values.ts';
import { type Message } from '../json-rpc.ts';

// Session ids, event ids and request states: the client gets the id with a MAC, and nothing is stored

/** `state` is the `requestState` that a client returns when it repeats a request (MCP 2026-07-28). */
export type IdKind = 'session' | 'event' | 'state';

export type IdBinder = {
  bind(kind: IdKind, caller: Caller, id: string): string;
  /**
   * Returns undefined if the id was not bound for this account, client and connector, or if an event id or state was bound at a higher level:
   * messages of that level may follow the event or be in the state.
   */
  unbind(kind: IdKind, caller: Caller, bound: string): string | undefined;
};

type Owner = Pick<Caller, 'accountId' | 'clientId' | 'connector'> & { level?: Level };

/** `upstream` is its address. */
export function idBinder(keys: KeyRing, levels: Levels, upstream: string): IdBinder {
  const macs = (kind: IdKind, owner: Owner, id: string) => {
    const { accountId, clientId, connector = '', level = '' } = owner;
    const text = JSON.stringify([kind, upstream, accountId, clientId, connector, level, id]);
    return keys.map((key) => createHmac('sha256', key).update(text).digest('base64url'));
  };
  return {
    bind: (kind, caller, id) => `${macs(kind, ownerOf(kind, caller), id)[0]}.${id}`,
    unbind(kind, caller, bound) {
      const dot = bound.indexOf('.');
      const [mac, id] = [bound.slice(0, Math.max(dot, 0)), bound.slice(dot + 1)];
      const owners =
        kind === 'session'
          ? [ownerOf(kind, caller)]
          : levelsUpTo(levels, caller.level).map((level) => ownerOf(kind, { ...caller, level }));
      const isBound = owners
        .flatMap((owner) => macs(kind, owner, id))
        .some((own) => constantTimeEqual(own, mac));
      return isBound ? id : undefined;
    },
  };
}

/** A session is usable at every level, because each call in it is authorized. */
function ownerOf(kind: IdKind, { level, ...caller }: Caller): Owner {
  return kind === 'session' ? caller : { ...caller, level };
}

/** The `requestState` as the upstream issued it; `foreign` if this caller did not get it; undefined if there is none. */
export function requestStateOf(
  ids: IdBinder,
  caller: Caller,
  { params }: Message,
): { state: string } | 'foreign' | undefined {
  const bound = params?.['requestState'];
  if (bound === undefined) return undefined;
  const state = typeof bound === 'string' ? ids.unbind('state', caller, bound) : undefined;
  return state === undefined ? 'foreign' : { state };
}

export function withUnboundState(ids: IdBinder, caller: Caller, message: Message): Message {
  const found = requestStateOf(ids, caller, message);
  if (found === undefined || found === 'foreign') return message;
  return { ...message, params: { ...message.params, requestState: found.state } };
}

export function withBoundState(
  ids: IdBinder,
  caller: Caller,
  result: Record<string, unknown>,
): Record<string, unknown> {
  const { requestState } = result;
  if (typeof requestState !== 'string') return result;
  return { ...result, requestState: ids.bind('state', caller, requestState) };
}

// Tasks (MCP 2025-11-25, and the tasks extension of 2026-07-28): a record per caller

export type NewTask = { id: string; ttlSeconds: number | undefined };

/**
 * Tasks need a record, because the upstream lists them and reports on them by ids that this caller may not have got. Task ids are not changed,
 * because results mention them in text.
 */
export type TaskOwnership = {
  /** Records the task at the caller's level. A recorded level is never lowered. */
  add(caller: Caller, task: NewTask): Promise<void>;
  /** The ids of the tasks that this account, client and connector got at the caller's level or a lower one. */
  idsOf(caller: Caller): Promise<ReadonlySet<string>>;
};

export const NO_TASKS: ReadonlySet<string> = new Set();

/** `expiresAt` is in seconds since the epoch. */
type TaskRecord = { id: string; level: Level; expiresAt: number };

const DAY_SECONDS = 86_400;
/** Also for tasks without a `ttl`. */
const MAX_LIFETIME_SECONDS = 90 * DAY_SECONDS;
/** Per caller. Those that expire first are dropped first, but never the newest. */
export const MAX_TASKS = 1000;

const RELATED_TASK = 'io.modelcontextprotocol/related-task';

/** `upstream` is its address; `now` returns seconds since the epoch. */
export function taskOwnership(
  store: Store,
  levels: Levels,
  upstream: string,
  now: () => number,
  maxTasks = MAX_TASKS,
): TaskOwnership {
  const keyOf = ({ accountId, clientId, connector = '' }: Caller) =>
    `upstream-tasks:${JSON.stringify([upstream, accountId, clientId, connector])}`;
  return {
    async add(caller, { id, ttlSeconds = MAX_LIFETIME_SECONDS }) {
      const time = now();
      // The upstream may extend a task's life without telling the caller.
      const lifetime = Math.min(Math.max(2 * ttlSeconds, DAY_SECONDS), MAX_LIFETIME_SECONDS);
      await store.update<TaskRecord[]>(keyOf(caller), (current = []) => {
        const known = current.find((task) => task.id === id);
        const others = current
          .filter((task) => task !== known && task.expiresAt > time)
          .toSorted((one, other) => one.expiresAt - other.expiresAt);
        const level =
          known && isAtLeast(levels, known.level, caller.level) ? known.level : caller.level;
        const value = [...others, { id, level, expiresAt: time + lifetime }].slice(-maxTasks);
        const last = Math.max(...value.map(({ expiresAt }) => expiresAt));
        return { value, ttl: last - time };
      });
    },
    async idsOf(caller) {
      const { value = [] } = (await store.get<TaskRecord[]>(keyOf(caller))) ?? {};
      const upTo = levelsUpTo(levels, caller.level);
      const usable = value.filter(
        ({ level, expiresAt }) => expiresAt > now() && upTo.includes(level),
      );
      return new Set(usable.map(({ id }) => id));
    },
  };
}

/** The task that a result creates (`CreateTaskResult`, in either revision). */
export function createdTask(result: Record<string, unknown>): NewTask | undefined {
  const task = result['resultType'] === 'task' ? result : membersOf(result['task']);
  const { taskId: id, ttl, ttlMs = ttl } = task;
  if (typeof id !== 'string') return undefined;
  return { id, ttlSeconds: typeof ttlMs === 'number' ? ttlMs / 1000 : undefined };
}

/**
 * The task ids in a request of the client, unvalidated. Excludes the client's own tasks (2025-11-25), which its responses and notifications
 * name: the client chose those ids.
 */
export function tasksNamedIn({ id, method = '', params }: Message): unknown[] {
  const related = relatedTask(params);
  const named: unknown[] = [];
  if (method.startsWith('tasks/') && method !== 'tasks/list') named.push(params?.['taskId']);
  if (method === 'subscriptions/listen') {
    const { taskIds = [] } = membersOf(params?.['notifications']);
    // There may be more than a function can have arguments.
    for (const task of [taskIds].flat()) named.push(task);
  }
  if (id !== undefined && method !== '' && related !== undefined) named.push(related);
  return named;
}

/**
 * Removes the related task from a response or notification if it is not the caller's. Requests with such a task are refused; responses and
 * notifications may name a task of the client's own.
 */
export function withoutForeignTask(own: ReadonlySet<string>, message: Message): Message {
  const { params, result } = message;
  const isForeign = (members: unknown) => {
    const related = relatedTask(members);
    return related !== undefined && !isOwnTask(own, related);
  };
  if (isForeign(params)) return { ...message, params: withoutRelatedTask(membersOf(params)) };
  if (isForeign(result)) return { ...message, result: withoutRelatedTask(membersOf(result)) };
  return message;
}

export function namesTask(message: Message): boolean {
  const { params, result } = message;
  const isRelated = relatedTask(params) !== undefined || relatedTask(result) !== undefined;
  return isRelated || tasksNamedIn(message).length > 0;
}

export function isOwnTask(own: ReadonlySet<string>, id: unknown): boolean {
  return typeof id === 'string' && own.has(id);
}

/** The id of the related task in the `_meta` of `params` or `result`, unvalidated; undefined if there is none. */
export function relatedTask(members: unknown): unknown {
  const related = membersOf(membersOf(members)['_meta'])[RELATED_TASK];
  return related === undefined ? undefined : (membersOf(related)['taskId'] ?? null);
}

function withoutRelatedTask({ _meta: meta, ...others }: Record<string, unknown>) {
  const { [RELATED_TASK]: _removed, ...kept } = membersOf(meta);
  return { ...others, _meta: kept };
}
