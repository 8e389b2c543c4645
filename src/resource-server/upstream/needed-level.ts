// Which level the messages of a call need at the upstream, as the settings declare it.
import { type Level, LEVELS } from '../../permission-level.ts';
import type { UpstreamSettings } from '../../settings/upstream.ts';
import type { Needed } from '../level.ts';
import { membersOf } from '../messages.ts';

export type LevelRules = {
  tools: ReadonlyMap<string, Level>;
  defaultLevel: Level;
};

/** What opens and keeps up a connection, and lists, which are filtered on their way back. */
const FREE: ReadonlySet<unknown> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'subscriptions/listen',
  'logging/setLevel',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
  'tasks/list',
]);

export function levelRules({ tools, defaultLevel }: UpstreamSettings): LevelRules {
  return {
    tools: new Map(tools.map(({ name, level }) => [name, level])),
    defaultLevel,
  };
}

export function levelOfTool({ tools, defaultLevel }: LevelRules, name: unknown): Level {
  return (typeof name === 'string' ? tools.get(name) : undefined) ?? defaultLevel;
}

/** Undefined for notifications, for answers of the client, and for what everybody may ask. `tool` is the method of what is no tool. */
export function neededBy(rules: LevelRules, message: unknown): Needed | undefined {
  const { id, method, params } = membersOf(message);
  if (typeof method !== 'string' || FREE.has(method)) return undefined;
  if (method.startsWith('notifications/') && id === undefined) return undefined;
  // What a task shows depends on who was given it, and at which level.
  if (method.startsWith('tasks/')) return { tool: method, level: LEVELS[0] };
  const { name } = membersOf(params);
  if (method !== 'tools/call' || typeof name !== 'string')
    return { tool: method, level: rules.defaultLevel };
  return { tool: name, level: levelOfTool(rules, name) };
}
