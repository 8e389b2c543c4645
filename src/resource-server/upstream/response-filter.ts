// What a caller may have of the upstream's messages: nothing about what no authorization on its link could reach, or what belongs to others.
import { type Caller, decide } from '../level.ts';
import { isObject, membersOf } from '../messages.ts';
import { badGateway } from './faults.ts';
import type { Handles } from './handles.ts';
import { isLookalike, type LevelRules, levelOfTool } from './needed-level.ts';
import type { ParameterHeaders } from './parameter-headers.ts';
import { failure, TASK_NOT_FOUND } from './refusals.ts';
import { withBoundState } from './request-state.ts';
import { createdTask, isOwn, relatedTask, type Tasks } from './tasks.ts';

export type FilterOptions = {
  rules: LevelRules;
  caller: Caller;
  tasks: Tasks;
  /** The caller's tasks as they were read when the call came, if they were. */
  ownTasks: ReadonlySet<string>;
  handles: Handles;
  parameterHeaders: ParameterHeaders;
  /** Whether the messages are news, and not only about a call that was allowed. */
  isListening: boolean;
};

const OTHER_LISTS = ['resources', 'resourceTemplates', 'prompts'] as const;
const MAX_TASK_ID_LENGTH = 512;

/** What they tell of is the caller's own call, session or tools. */
const OWN_NOTIFICATIONS: ReadonlySet<unknown> = new Set([
  'notifications/cancelled',
  'notifications/elicitation/complete',
  'notifications/message',
  'notifications/progress',
  'notifications/subscriptions/acknowledged',
  'notifications/tools/list_changed',
]);
const LIST_NOTIFICATIONS: ReadonlySet<unknown> = new Set([
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
]);
const RESOURCE_UPDATED = 'notifications/resources/updated';

/**
 * A message of the upstream as the caller may have it: the same object when nothing is changed, undefined when it is dropped. Lists and
 * tasks are known by what they hold, not by what was asked: an answer may come on another stream than its request.
 */
export async function filterMessage(options: FilterOptions, message: unknown): Promise<unknown> {
  const { id, method, result } = membersOf(message);
  if (method !== undefined)
    return (await isForCaller(options, membersOf(message))) ? message : undefined;
  if (!isObject(message) || !isObject(result)) return message;
  const filtered = await filterResult(options, result);
  if (filtered === undefined) return failure(id, TASK_NOT_FOUND);
  return filtered === result ? message : { ...message, result: filtered };
}

/** Whether the caller may have a request or a notification. */
async function isForCaller(
  options: FilterOptions,
  { id, method, params }: Record<string, unknown>,
): Promise<boolean> {
  const { rules, caller, isListening } = options;
  const isAboutTask = /^notifications\/tasks(\/|$)/.test(String(method));
  const related = relatedTask(params);
  const named = [
    ...(isAboutTask ? [membersOf(params)['taskId']] : []),
    ...(related === undefined ? [] : [related]),
  ];
  if (!(await areOwn(options, named))) return false;
  if (isAboutTask) return true;
  if (id !== undefined || OWN_NOTIFICATIONS.has(method)) return true;
  const decision = decide(caller, rules.defaultLevel);
  if (LIST_NOTIFICATIONS.has(method)) return decision !== 'never';
  // In the stream of a call that was allowed, what else the server has to say belongs to the call.
  return decision === 'allowed' || (!isListening && method !== RESOURCE_UPDATED);
}

/** Undefined when the result is about a task that is not the caller's. */
async function filterResult(
  options: FilterOptions,
  result: Record<string, unknown>,
): Promise<Record<string, unknown> | undefined> {
  const { caller, tasks, handles, parameterHeaders } = options;
  const created = createdTask(result);
  if (created) {
    if (created.id.length > MAX_TASK_ID_LENGTH)
      throw badGateway(new Error('the id of a task is too long'));
    await tasks.give(caller, created);
  }
  if (!(await areOwn(options, tasksIn(result)))) return undefined;
  const own = isList(result, 'tasks') ? await tasks.idsOf(caller) : undefined;
  if (isList(result, 'tools')) parameterHeaders.learn(result['tools']);
  const lists = filterLists(options, result, own);
  const isFiltered = Object.keys(lists).length > 0;
  const filtered = isFiltered ? { ...result, ...lists, ...unshared(result) } : result;
  return withBoundState(handles, caller, filtered);
}

/** Reads nothing for tasks that the call knew: a client asks for the state of a task again and again. */
async function areOwn(
  { caller, tasks, ownTasks }: FilterOptions,
  named: readonly unknown[],
): Promise<boolean> {
  if (named.every((task) => isOwn(ownTasks, task))) return true;
  const own = await tasks.idsOf(caller);
  return named.every((task) => isOwn(own, task));
}

/** The tasks that a result is the state of, or belongs to. */
function tasksIn(result: Record<string, unknown>): unknown[] {
  const { taskId, status } = result;
  const related = relatedTask(result);
  return [
    ...(typeof taskId === 'string' && typeof status === 'string' ? [taskId] : []),
    ...(related === undefined ? [] : [related]),
  ];
}

function filterLists(
  { rules, caller }: FilterOptions,
  result: Record<string, unknown>,
  ownTasks: ReadonlySet<string> | undefined,
): Record<string, unknown> {
  const isReachable = (tool: unknown) => {
    const { name } = membersOf(tool);
    return !isLookalike(rules, name) && decide(caller, levelOfTool(rules, name)) !== 'never';
  };
  const isOwnTask = (task: unknown) => ownTasks && isOwn(ownTasks, membersOf(task)['taskId']);
  const areOthersHidden = decide(caller, rules.defaultLevel) === 'never';
  const hidden = OTHER_LISTS.filter((name) => areOthersHidden && isList(result, name));
  return {
    ...(isList(result, 'tools') ? { tools: result['tools'].filter(isReachable) } : {}),
    ...(isList(result, 'tasks') ? { tasks: result['tasks'].filter(isOwnTask) } : {}),
    ...Object.fromEntries(hidden.map((name) => [name, []])),
  };
}

function isList<Name extends string>(
  result: Record<string, unknown>,
  name: Name,
): result is Record<Name, unknown[]> {
  return Array.isArray(result[name]);
}

/** What one caller may see is not for a cache that others read from (MCP 2026-07-28, caching). */
function unshared({ cacheScope }: Record<string, unknown>): Record<string, unknown> {
  return cacheScope === 'public' ? { cacheScope: 'private' } : {};
}
