// Removes from the messages of the upstream what their caller may not see.
import { type Caller, connectionOf } from '../authenticate.ts';
import { type Extensions, withAuthorizationExtensions } from '../extensions.ts';
import { isObject, membersOf } from '../../json-values.ts';
import { errorResponse } from '../json-rpc.ts';
import {
  createdTask,
  type IdBinder,
  isOwnTask,
  relatedTask,
  type TaskOwnership,
  withBoundState,
} from './bound-ids.ts';
import type { ReadMembers } from './json-scanner.ts';
import { badGateway } from './gateway-errors.ts';
import type { ParameterHeaders } from './headers.ts';
import { isResponse, type RpcMessage } from './messages.ts';
import {
  decide,
  decideByLevel,
  type Decision,
  type Needed,
  type Rights,
} from '../../upstreams/tool-access.ts';
import { isLookalike, type LevelRules, neededFor } from '../../upstreams/tool-levels.ts';
import { TASK_NOT_FOUND } from './levels.ts';
import type { ToolHolds } from './tool-holds.ts';

export type MessageFilter = {
  /** Returns undefined if the message is dropped. */
  filter(message: RpcMessage): Promise<RpcMessage | undefined>;
};

/** Omits the messages that the filter drops. */
export function filterAll(
  messages: readonly RpcMessage[],
  by: MessageFilter,
): readonly RpcMessage[] | Promise<readonly RpcMessage[]> {
  return messages.some(needsFilter) ? filterEach(messages, by) : messages;
}

async function filterEach(
  messages: readonly RpcMessage[],
  by: MessageFilter,
): Promise<readonly RpcMessage[]> {
  const filtered = [];
  for (const message of messages) filtered.push(await by.filter(message));
  return filtered.filter((message) => message !== undefined);
}

export type FilterOptions = {
  /** Returns the current rules: they may have changed since the request, and a list of tools changes them. */
  rules: () => LevelRules;
  caller: Caller;
  tasks: TaskOwnership;
  /** The caller's tasks at the start of the request, if they were read. */
  ownTasks: ReadonlySet<string>;
  ids: IdBinder;
  parameterHeaders: ParameterHeaders;
  extensions: Extensions;
  /** Called when the upstream says that its list of tools changed. */
  onToolsChanged: () => void;
  /** Called with each list of tools, before it is filtered. */
  onToolsListed: (tools: readonly unknown[]) => Promise<void>;
  /** Which tools and instructions wait for an operator. */
  holds: ToolHolds;
  /** True for the stream of a session or a subscription, whose notifications do not belong to an authorized call. */
  isListening: boolean;
  /** Whether a list without a next page is all that the caller is shown: its request asked for no later page. */
  startsLists: boolean;
};

/** What each list names its entries by. */
const OTHER_LISTS = {
  resources: 'uri',
  resourceTemplates: 'uriTemplate',
  prompts: 'name',
} as const;
const otherLists = Object.keys(OTHER_LISTS) as (keyof typeof OTHER_LISTS)[];
const MAX_TASK_ID_LENGTH = 512;

const TOOLS_CHANGED = 'notifications/tools/list_changed';

/** About the caller's own calls, session or tools. */
const OWN_NOTIFICATIONS: ReadonlySet<unknown> = new Set([
  'notifications/cancelled',
  'notifications/elicitation/complete',
  'notifications/message',
  'notifications/progress',
  'notifications/subscriptions/acknowledged',
  TOOLS_CHANGED,
]);
/** The entries of the settings that they are about. */
const LIST_NOTIFICATIONS: ReadonlyMap<unknown, 'prompts' | 'resources'> = new Map([
  ['notifications/prompts/list_changed', 'prompts'],
  ['notifications/resources/list_changed', 'resources'],
]);
const RESOURCE_UPDATED = 'notifications/resources/updated';

/** The members of results that the filter may change, or keeps from the caller. */
const FILTERED_MEMBERS = [
  '_meta',
  'instructions',
  'prompts',
  'requestState',
  'resourceTemplates',
  'resources',
  'supportedVersions',
  'task',
  'taskId',
  'tasks',
  'tools',
];

/** All that this folder reads of what an upstream sends. Other members of these objects pass unread in large messages, and may be missing there. */
export const READ_MEMBERS: ReadMembers = {
  error: new Set(),
  params: new Set(['_meta', 'taskId', 'uri']),
  result: new Set([
    ...FILTERED_MEMBERS,
    'cacheScope',
    'capabilities',
    'isError',
    'nextCursor',
    'resultType',
    'status',
    'ttl',
    'ttlMs',
  ]),
};

/** False for most results of tools, which the filter would not change. */
function needsFilter({ method, result }: RpcMessage): boolean {
  if (method !== undefined) return true;
  return isObject(result) && FILTERED_MEMBERS.some((name) => result[name] !== undefined);
}

/**
 * Removes what the caller can never reach, or what belongs to other callers. Returns undefined if the message is dropped. Recognizes lists and
 * tasks by their members, because a response may arrive on another stream than its request.
 */
export async function filterMessage(
  options: FilterOptions,
  message: RpcMessage,
): Promise<RpcMessage | undefined> {
  const { id, method, result } = message;
  if (method !== undefined && !isResponse(message))
    return (await isForCaller(options, message)) ? message : undefined;
  if (!isObject(result)) return message;
  const filtered = await filterResult(options, result);
  if (filtered === undefined) return errorResponse(id, TASK_NOT_FOUND);
  return filtered === result ? message : { ...message, result: filtered };
}

/** Whether the caller may receive a request or a notification. */
async function isForCaller(
  options: FilterOptions,
  { id, method, params }: Record<string, unknown>,
): Promise<boolean> {
  const { caller, isListening } = options;
  if (method === TOOLS_CHANGED) options.onToolsChanged();
  const isAboutTask = /^notifications\/tasks(\/|$)/.test(String(method));
  const related = relatedTask(params);
  const named = [
    ...(isAboutTask ? [membersOf(params)['taskId']] : []),
    ...(related === undefined ? [] : [related]),
  ];
  if (!(await areOwnTasks(options, named))) return false;
  if (isAboutTask) return true;
  if (id !== undefined || OWN_NOTIFICATIONS.has(method)) return true;
  const rules = options.rules();
  const listed = LIST_NOTIFICATIONS.get(method);
  if (listed) {
    const levels = [rules.defaultLevel, ...rules[listed].levels];
    return levels.some((level) => decideByLevel(rules.levels, caller, level) !== 'forbidden');
  }
  const isUpdate = method === RESOURCE_UPDATED;
  const item: Needed = isUpdate
    ? neededFor(rules, 'resource', membersOf(params)['uri'])
    : { kind: 'method', level: rules.defaultLevel };
  const decision = decisionAbout(rules, caller, item);
  // In the stream of an authorized call, other notifications belong to the call.
  return decision === 'allowed' || (!isListening && !isUpdate);
}

/** Returns undefined if the result is about a task of another caller. */
async function filterResult(
  options: FilterOptions,
  given: Record<string, unknown>,
): Promise<Record<string, unknown> | undefined> {
  const { caller, tasks, ids, parameterHeaders } = options;
  let result = given;
  const created = createdTask(result);
  if (created) {
    if (created.id.length > MAX_TASK_ID_LENGTH)
      throw badGateway(new Error('the id of a task is too long'));
    await tasks.add(caller, created);
  }
  if (!(await areOwnTasks(options, tasksIn(result)))) return undefined;
  const own = isList(result, 'tasks') ? await tasks.idsOf(caller) : undefined;
  if (isList(result, 'tools')) {
    await options.onToolsListed(result['tools']);
    const shown = await options.holds.shown(result, options);
    parameterHeaders.learn(shown, connectionOf(caller));
    result = { ...result, tools: shown };
  }
  if (typeof result['instructions'] === 'string')
    result = await withApprovedInstructions(options, result, result['instructions']);
  const lists = filterLists(options, result, own);
  const isFiltered = Object.keys(lists).length > 0;
  const filtered = isFiltered
    ? { ...result, ...lists }
    : withAuthorizationExtensions(options.extensions, result);
  return withBoundState(ids, caller, withLimitedCaching(filtered));
}

/** Instructions that wait for an operator are left out: they may be about the caller, so that those of another cannot stand for them. */
async function withApprovedInstructions(
  { holds, caller }: FilterOptions,
  result: Record<string, unknown>,
  text: string,
): Promise<Record<string, unknown>> {
  if (await holds.areInstructionsShown(text, caller)) return result;
  const { instructions: _held, ...others } = result;
  return others;
}

/** Reads the store only for tasks outside `ownTasks`, because clients poll the state of a task. */
async function areOwnTasks(
  { caller, tasks, ownTasks }: FilterOptions,
  named: readonly unknown[],
): Promise<boolean> {
  if (named.every((task) => isOwnTask(ownTasks, task))) return true;
  const own = await tasks.idsOf(caller);
  return named.every((task) => isOwnTask(own, task));
}

/** The task whose state a result is, and the task that it belongs to. */
function tasksIn(result: Record<string, unknown>): unknown[] {
  const { taskId, status } = result;
  const related = relatedTask(result);
  return [
    ...(typeof taskId === 'string' && typeof status === 'string' ? [taskId] : []),
    ...(related === undefined ? [] : [related]),
  ];
}

/** Whether the caller may call the tool, now or with a level that the person can grant. */
export function isReachable(rules: LevelRules, caller: Rights, name: unknown): boolean {
  if (isLookalike(rules, name)) return false;
  return decisionAbout(rules, caller, neededFor(rules, 'tool', name)) !== 'forbidden';
}

function decisionAbout({ levels }: LevelRules, caller: Rights, item: Needed): Decision {
  return decide(levels, caller, { level: item.level, items: [item] }).decision;
}

function filterLists(
  { rules: currentRules, caller }: FilterOptions,
  result: Record<string, unknown>,
  ownTasks: ReadonlySet<string> | undefined,
): Record<string, unknown> {
  const rules = currentRules();
  const isOwn = (task: unknown) => ownTasks && isOwnTask(ownTasks, membersOf(task)['taskId']);
  const isReachableIn = (list: keyof typeof OTHER_LISTS) => (entry: unknown) => {
    const kind = list === 'prompts' ? 'prompt' : 'resource';
    const item = neededFor(rules, kind, membersOf(entry)[OTHER_LISTS[list]]);
    return decisionAbout(rules, caller, item) !== 'forbidden';
  };
  const others = otherLists.filter((name) => isList(result, name));
  return {
    ...(isList(result, 'tools')
      ? {
          tools: result['tools'].filter((tool) =>
            isReachable(rules, caller, membersOf(tool)['name']),
          ),
        }
      : {}),
    ...(isList(result, 'tasks') ? { tasks: result['tasks'].filter(isOwn) } : {}),
    ...Object.fromEntries(
      others.map((name) => [name, (result[name] as unknown[]).filter(isReachableIn(name))]),
    ),
  };
}

function isList<Name extends string>(
  result: Record<string, unknown>,
  name: Name,
): result is Record<Name, unknown[]> {
  return Array.isArray(result[name]);
}

const MAX_LIST_TTL_MS = 5000;
const LISTS = ['tools', 'tasks', ...otherLists] as const;

/** Lists and discovery differ by caller, and change with levels and links (MCP 2026-07-28, caching). */
function withLimitedCaching(result: Record<string, unknown>): Record<string, unknown> {
  const { cacheScope, ttlMs } = result;
  const isCacheable = cacheScope !== undefined || ttlMs !== undefined;
  const isDiscovery = Array.isArray(result['supportedVersions']);
  if (!isCacheable || !(isDiscovery || LISTS.some((name) => isList(result, name)))) return result;
  const isShort = typeof ttlMs === 'number' && ttlMs < MAX_LIST_TTL_MS;
  return { ...result, cacheScope: 'private', ttlMs: isShort ? ttlMs : MAX_LIST_TTL_MS };
}
