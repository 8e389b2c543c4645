// The tasks that the upstream created (MCP 2025-11-25, and the tasks extension of 2026-07-28), each bound to the caller that it was given to.
import { type Level, levelsUpTo, isAtLeast } from '../../permission-level.ts';
import type { Store } from '../../store/store.ts';
import type { Caller } from '../level.ts';
import { membersOf } from '../messages.ts';
import type { Message } from './message.ts';

export type NewTask = { id: string; ttlSeconds: number | undefined };

/**
 * Session ids carry a MAC and need no record (handles.ts). Tasks need one: the upstream lists them and reports on them by ids that the
 * caller may never have been given. The ids themselves are not changed, because results mention them in text.
 */
export type Tasks = {
  /** Remembers that the caller was given the task, at the caller's level. A level that is recorded already is never lowered. */
  give(caller: Caller, task: NewTask): Promise<void>;
  /** The ids of the tasks that were given to this account, client and connector, at no higher level than the caller's. */
  idsOf(caller: Caller): Promise<ReadonlySet<string>>;
};

export const NO_TASKS: ReadonlySet<string> = new Set();

/** Seconds since the epoch. */
type TaskRecord = { id: string; level: Level; expiresAt: number };

const DAY = 86_400;
/** For tasks that the upstream keeps without a limit. Seconds. */
const MAX_LIFETIME = 90 * DAY;
/** Of one caller; those that end first are forgotten first, but never the newest. */
const MAX_TASKS = 1000;

const RELATED_TASK = 'io.modelcontextprotocol/related-task';

/** `upstream` is its address; `now` is in seconds since the epoch. */
export function openTasks(store: Store, upstream: string, now: () => number): Tasks {
  const keyOf = ({ accountId, clientId, connector = '' }: Caller) =>
    `upstream-tasks:${JSON.stringify([upstream, accountId, clientId, connector])}`;
  return {
    async give(caller, { id, ttlSeconds = MAX_LIFETIME }) {
      const time = now();
      // The upstream may prolong the life of a task without telling the caller.
      const lifetime = Math.min(Math.max(2 * ttlSeconds, DAY), MAX_LIFETIME);
      await store.update<TaskRecord[]>(keyOf(caller), (current = []) => {
        const known = current.find((task) => task.id === id);
        const others = current
          .filter((task) => task !== known && task.expiresAt > time)
          .toSorted((one, other) => one.expiresAt - other.expiresAt);
        const level = known && isAtLeast(known.level, caller.level) ? known.level : caller.level;
        const value = [...others, { id, level, expiresAt: time + lifetime }].slice(-MAX_TASKS);
        const last = Math.max(...value.map(({ expiresAt }) => expiresAt));
        return { value, ttl: last - time };
      });
    },
    async idsOf(caller) {
      const { value = [] } = (await store.get<TaskRecord[]>(keyOf(caller))) ?? {};
      const levels = levelsUpTo(caller.level);
      const usable = value.filter(
        ({ level, expiresAt }) => expiresAt > now() && levels.includes(level),
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
 * The tasks that a request of the client names; what names none with text is in it as it is. The client's own tasks, which answers and
 * notifications speak of (2025-11-25), are not in it: their ids are the client's.
 */
export function tasksNamedIn({ id, method = '', params }: Message): unknown[] {
  const related = relatedTask(params);
  const { taskIds } = membersOf(params?.['notifications']);
  return [
    ...(method.startsWith('tasks/') && method !== 'tasks/list' ? [params?.['taskId']] : []),
    ...(method === 'subscriptions/listen' && taskIds !== undefined ? [taskIds].flat() : []),
    ...(id !== undefined && method !== '' && related !== undefined ? [related] : []),
  ];
}

/**
 * The message without a task that it claims to belong to and that is not the caller's. Requests with such a claim are refused. Answers
 * and notifications lose it, because a client may also claim a task of its own there.
 */
export function withoutForeignTask(own: ReadonlySet<string>, message: Message): Message {
  const { params, result } = message;
  const isForeign = (members: unknown) => {
    const related = relatedTask(members);
    return related !== undefined && !isOwn(own, related);
  };
  if (isForeign(params)) return { ...message, params: withoutRelatedTask(membersOf(params)) };
  if (isForeign(result)) return { ...message, result: withoutRelatedTask(membersOf(result)) };
  return message;
}

export function speaksOfTasks(message: Message): boolean {
  const { params, result } = message;
  const related = [params, result].some((members) => relatedTask(members) !== undefined);
  return related || tasksNamedIn(message).length > 0;
}

export function isOwn(own: ReadonlySet<string>, id: unknown): boolean {
  return typeof id === 'string' && own.has(id);
}

/** The task that a message or its result belongs to, as `params` or `result` says in `_meta`; undefined when it says nothing. */
export function relatedTask(members: unknown): unknown {
  const related = membersOf(membersOf(members)['_meta'])[RELATED_TASK];
  return related === undefined ? undefined : (membersOf(related)['taskId'] ?? null);
}

function withoutRelatedTask({ _meta: meta, ...others }: Record<string, unknown>) {
  const { [RELATED_TASK]: _removed, ...kept } = membersOf(meta);
  return { ...others, _meta: kept };
}
