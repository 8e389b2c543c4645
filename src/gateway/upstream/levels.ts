// Authorizes messages for the upstream by the levels in the settings.
import { isAtLeast, type Level, lowestLevel } from '../../permission-levels.ts';
import type { Needed } from '../../upstreams/tool-access.ts';
import {
  isLookalike,
  levelOfTool,
  type LevelRules,
  neededFor,
} from '../../upstreams/tool-levels.ts';
import type { Caller } from '../authenticate.ts';
import { authorizeRequest, denialText, type RequiredLevel } from '../authorize.ts';
import { isObject, membersOf } from '../../json-values.ts';
import {
  errorResponse,
  INVALID_PARAMS,
  isLookalikeMethod,
  isRequest,
  MISSING_CLIENT_CAPABILITY,
  type Message,
  SERVER_ERROR,
  toolErrorResponse,
} from '../json-rpc.ts';
import { isStateless, revisionOf } from './headers.ts';
import { heldText, type ToolHolds } from './tool-holds.ts';
import { type IdBinder, isOwnTask, requestStateOf, tasksNamedIn } from './bound-ids.ts';

const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/** Methods that need no level: they maintain a connection, or request lists, whose responses are filtered. */
const UNRESTRICTED_METHODS: ReadonlySet<unknown> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'logging/setLevel',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
  'tasks/list',
]);

/** Filters of `subscriptions/listen` that need no level: changes of lists, and tasks, which are bound to their callers. */
const UNRESTRICTED_SUBSCRIPTIONS: ReadonlySet<string> = new Set([
  'toolsListChanged',
  'promptsListChanged',
  'resourcesListChanged',
  'taskIds',
]);

const RESOURCE_SUBSCRIPTIONS = 'resourceSubscriptions';

/** Returns undefined for notifications, responses of the client, and unrestricted methods. */
export function requiredBy(rules: LevelRules, message: unknown): RequiredLevel | undefined {
  const { id, method, params } = membersOf(message);
  if (typeof method !== 'string' || UNRESTRICTED_METHODS.has(method)) return undefined;
  // Refused at every level.
  if (isLookalikeMethod(method)) return undefined;
  if (method.startsWith('notifications/') && id === undefined) return undefined;
  if (method === 'subscriptions/listen' && !isRestrictedSubscription(params)) return undefined;
  // Tasks are bound to a caller and a level.
  if (method.startsWith('tasks/'))
    return { tool: method, level: lowestLevel(rules.levels), items: [] };
  const { name } = membersOf(params);
  if (method !== 'tools/call' || typeof name !== 'string')
    return { tool: method, ...needOf(rules, method, membersOf(params)) };
  // Refused at every level.
  if (isLookalike(rules, name)) return undefined;
  const level = levelOfTool(rules, name);
  if (rules.isHeld?.(name)) return { tool: name, level, isUnknown: true };
  if (rules.isListed?.(name) !== false) return { tool: name, level };
  return {
    tool: name,
    level,
    items: [{ kind: 'tool', name, isListed: false, level }],
    ...(rules.hasCatalog ? { isUnknown: true } : {}),
  };
}

/** Of a request that is no call of a named tool: its level, and what the tool lists of the caller must open. */
function needOf(
  rules: LevelRules,
  method: string,
  params: Record<string, unknown>,
): { level: Level; items: Needed[] } {
  switch (method) {
    case 'tools/call':
      return needed({ kind: 'unclear', level: rules.defaultLevel });
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return needed(neededFor(rules, 'resource', params['uri']));
    case 'prompts/get':
      return needed(neededFor(rules, 'prompt', params['name']));
    case 'completion/complete':
      return needed(neededForReference(rules, params['ref']));
    case 'subscriptions/listen':
      return neededForSubscription(rules, params['notifications']);
    default:
      return needed({ kind: 'method', level: rules.defaultLevel });
  }
}

function needed(item: Needed): { level: Level; items: Needed[] } {
  return { level: item.level, items: [item] };
}

/** Of a completion. One that is not of MCP could be read in either way. */
function neededForReference(rules: LevelRules, ref: unknown): Needed {
  const { type, uri, name, ...others } = membersOf(ref);
  if (hasSimilarMember(others, ['type', 'uri', 'name'])) {
    const level = highest(rules, [...rules.resources.levels, ...rules.prompts.levels]);
    return { kind: 'unclear', level };
  }
  if (type === 'ref/prompt') return neededFor(rules, 'prompt', name);
  if (type === 'ref/resource') return neededFor(rules, 'resource', uri);
  const level = highest(rules, [
    ...(uri === undefined ? [] : [rules.resources.levelOf(uri)]),
    ...(name === undefined ? [] : [rules.prompts.levelOf(name)]),
  ]);
  return { kind: 'unclear', level };
}

function neededForSubscription(
  rules: LevelRules,
  notifications: unknown,
): { level: Level; items: Needed[] } {
  const unclear: Needed = { kind: 'unclear', level: highest(rules, rules.resources.levels) };
  if (!isObject(notifications) || hasSimilarMember(notifications, [RESOURCE_SUBSCRIPTIONS]))
    return needed(unclear);
  const items = restrictedSubscriptions(notifications).flatMap(([kind, filter]): Needed[] => {
    if (kind !== RESOURCE_SUBSCRIPTIONS) return [{ kind: 'method', level: rules.defaultLevel }];
    if (!Array.isArray(filter)) return [unclear];
    return filter.map((uri) => neededFor(rules, 'resource', uri));
  });
  const least = { ...rules, defaultLevel: lowestLevel(rules.levels) };
  return {
    level: highest(
      least,
      items.map(({ level }) => level),
    ),
    items,
  };
}

/** Some parsers ignore the case of member names. */
function hasSimilarMember(members: Record<string, unknown>, names: readonly string[]): boolean {
  const folded = names.map((name) => name.toLowerCase());
  return Object.keys(members).some(
    (name) => !names.includes(name) && folded.includes(name.toUpperCase().toLowerCase()),
  );
}

/** Of these and `defaultLevel`. */
function highest({ levels, defaultLevel }: LevelRules, others: readonly Level[]): Level {
  return others.reduce(
    (high, level) => (isAtLeast(levels, high, level) ? high : level),
    defaultLevel,
  );
}

function isRestrictedSubscription(params: unknown): boolean {
  const { notifications } = membersOf(params);
  if (notifications === undefined) return false;
  if (!isObject(notifications)) return true;
  return restrictedSubscriptions(notifications).length > 0;
}

function restrictedSubscriptions(notifications: Record<string, unknown>): [string, unknown][] {
  return Object.entries(notifications).filter(
    ([kind, filter]) => !UNRESTRICTED_SUBSCRIPTIONS.has(kind) && !isEmptyFilter(filter),
  );
}

function isEmptyFilter(filter: unknown): boolean {
  return !filter || (Array.isArray(filter) && filter.length === 0);
}

export type RefusalOptions = {
  rules: LevelRules;
  productName: string;
  ids: IdBinder;
  /** The ids of the tasks that the caller may use. */
  ownTasks: ReadonlySet<string>;
  holds: Pick<ToolHolds, 'reason'>;
  supportContact?: string | undefined;
};

const BATCH_REFUSED = {
  code: SERVER_ERROR,
  message: 'This call was not made, because another call in the batch was refused.',
};
/** The response of a server to an id that it did not issue. */
export const TASK_NOT_FOUND = { code: INVALID_PARAMS, message: 'Task not found' };
const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';
/** The response of a server with the tasks extension to a client that does not declare it (MCP 2026-07-28, SEP-2663). */
const TASKS_NOT_DECLARED = {
  code: MISSING_CLIENT_CAPABILITY,
  message: `Missing required client capability: extensions["${TASKS_EXTENSION}"]`,
  data: { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
};
const UNKNOWN_TOOL = {
  code: INVALID_PARAMS,
  message: 'Unknown tool: the server has no tool with this name',
};
const UNKNOWN_STATE = { code: INVALID_PARAMS, message: 'Unknown requestState' };

/** Returns the responses if any message is refused. One refused message refuses its whole batch. */
export function refuseMessages(
  options: RefusalOptions,
  caller: Caller,
  messages: readonly Message[],
): object[] | undefined {
  return refuseBatch(
    messages,
    messages.map((message) => refuseMessage(options, caller, message)),
  );
}

/** `refusals` has the response to each message that is refused. */
export function refuseBatch(
  messages: readonly Message[],
  refusals: readonly (object | undefined)[],
): object[] | undefined {
  if (refusals.every((refusal) => refusal === undefined)) return undefined;
  return messages.flatMap((message, n) =>
    isRequest(message) ? [refusals[n] ?? errorResponse(message.id, BATCH_REFUSED)] : [],
  );
}

/** Requests of the tasks extension if they name a task. */
const EXTENSION_METHODS: ReadonlySet<unknown> = new Set([
  'tasks/get',
  'tasks/update',
  'tasks/cancel',
  'subscriptions/listen',
]);

/** Each request of the extension declares it again. Independent of the task, so that the response reveals nothing about it. */
function lacksTasksExtension(message: Message): boolean {
  if (!EXTENSION_METHODS.has(message.method) || !isStateless(revisionOf(message))) return false;
  const { extensions } = membersOf(membersOf(message.params?.['_meta'])[CLIENT_CAPABILITIES]);
  return membersOf(extensions)[TASKS_EXTENSION] === undefined;
}

function refuseMessage(
  options: RefusalOptions,
  caller: Caller,
  message: Message,
): object | undefined {
  const { rules, productName, ids, ownTasks } = options;
  const { id, method, params } = message;
  if (method === 'tools/call' && isLookalike(rules, params?.['name']))
    return errorResponse(id, UNKNOWN_TOOL);
  if (tasksNamedIn(message).some((task) => !isOwnTask(ownTasks, task)))
    return errorResponse(id, lacksTasksExtension(message) ? TASKS_NOT_DECLARED : TASK_NOT_FOUND);
  if (requestStateOf(ids, caller, message) === 'foreign') return errorResponse(id, UNKNOWN_STATE);
  const required = requiredBy(rules, message);
  const verdict = authorizeRequest(rules.levels, caller, required);
  if (method === 'tools/call' && verdict.decision !== 'forbidden') {
    const held = refuseHeld(options, caller, message);
    if (held) return held;
  }
  if (required?.isUnknown) return errorResponse(id, UNKNOWN_TOOL);
  if (!required || verdict.decision === 'allowed') return undefined;
  const text = denialText(productName, caller, required, verdict);
  return method === 'tools/call'
    ? toolErrorResponse(id, text)
    : errorResponse(id, { code: SERVER_ERROR, message: text });
}

/** A tool that waits for an operator. */
function refuseHeld(
  { holds, ...words }: RefusalOptions,
  caller: Caller,
  { id, params }: Message,
): object | undefined {
  const tool = String(params?.['name']);
  const reason = holds.reason(tool, caller);
  if (reason === undefined) return undefined;
  if (reason === 'unknown') return errorResponse(id, UNKNOWN_TOOL);
  return toolErrorResponse(id, heldText(tool, reason, words));
}
