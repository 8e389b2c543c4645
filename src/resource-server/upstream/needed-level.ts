// Which level the messages of a call need at the upstream, as the settings declare it.
import { type Level, LEVELS } from '../../permission-level.ts';
import type { UpstreamSettings } from '../../settings/schema.ts';
import type { Needed } from '../level.ts';
import { isObject, membersOf } from '../messages.ts';

export type LevelRules = {
  tools: ReadonlyMap<string, Level>;
  /** The names of `tools` without what tells variants apart. */
  foldedNames: ReadonlySet<string>;
  defaultLevel: Level;
};

/** What opens and keeps up a connection, and lists, which are filtered on their way back. */
const FREE: ReadonlySet<unknown> = new Set([
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

/** The members of a filter of `subscriptions/listen` that tell of changed lists, or of tasks, which are bound to their callers (tasks.ts). */
const FREE_SUBSCRIPTIONS: ReadonlySet<string> = new Set([
  'toolsListChanged',
  'promptsListChanged',
  'resourcesListChanged',
  'taskIds',
]);

/** MCP recommends at most 128. */
const MAX_NAME_LENGTH = 512;

export function levelRules({ tools, defaultLevel }: UpstreamSettings): LevelRules {
  return {
    tools: new Map(tools.map(({ name, level }) => [name, level])),
    foldedNames: new Set(tools.map(({ name }) => foldedName(name))),
    defaultLevel,
  };
}

/**
 * True when the name differs from a declared one in case, Unicode form (NFKC), white space or invisible characters only. An upstream that
 * compares names less strictly would take one for the other, and run a tool with the level of another. True also for a name that is too
 * long for a tool, because comparing it takes long.
 */
export function isLookalike({ tools, foldedNames }: LevelRules, name: unknown): boolean {
  if (typeof name !== 'string' || tools.has(name)) return false;
  return name.length > MAX_NAME_LENGTH || foldedNames.has(foldedName(name));
}

/** Upper case first: the long s, the sharp s and the dotless i have no other case folding in JavaScript. */
function foldedName(name: string): string {
  const visible = name
    .normalize('NFKC')
    .replace(/[\s\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, '');
  return visible.toUpperCase().toLowerCase().normalize('NFKC');
}

export function levelOfTool({ tools, defaultLevel }: LevelRules, name: unknown): Level {
  return (typeof name === 'string' ? tools.get(name) : undefined) ?? defaultLevel;
}

/** Undefined for notifications, for answers of the client, and for what everybody may ask. `tool` is the method of what is no tool. */
export function neededBy(rules: LevelRules, message: unknown): Needed | undefined {
  const { id, method, params } = membersOf(message);
  if (typeof method !== 'string' || FREE.has(method)) return undefined;
  if (method.startsWith('notifications/') && id === undefined) return undefined;
  if (method === 'subscriptions/listen' && !subscribesToMore(params)) return undefined;
  // What a task shows depends on who was given it, and at which level.
  if (method.startsWith('tasks/')) return { tool: method, level: LEVELS[0] };
  const { name } = membersOf(params);
  if (method !== 'tools/call' || typeof name !== 'string')
    return { tool: method, level: rules.defaultLevel };
  // No level helps: it is refused.
  if (isLookalike(rules, name)) return undefined;
  return { tool: name, level: levelOfTool(rules, name) };
}

/** Whether `subscriptions/listen` asks for anything, such as resources, that is not open to everybody. */
function subscribesToMore(params: unknown): boolean {
  const { notifications } = membersOf(params);
  if (notifications === undefined) return false;
  if (!isObject(notifications)) return true;
  return Object.entries(notifications).some(
    ([kind, wanted]) => !FREE_SUBSCRIPTIONS.has(kind) && !isNothing(wanted),
  );
}

function isNothing(wanted: unknown): boolean {
  return !wanted || (Array.isArray(wanted) && wanted.length === 0);
}
