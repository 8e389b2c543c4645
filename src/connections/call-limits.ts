// The limits on calls that apply to a connection or a minted token, and what was used of them.
import type { CallLimitKind } from '../observability/labels.ts';
import type { Level } from '../permission-levels.ts';
import { parseRate, type Rate } from '../settings/limits.ts';
import type { Settings } from '../settings/settings.ts';
import { DEFAULT_UPSTREAM, findUpstream } from '../settings/upstreams.ts';
import type { CallWindow, CallWindows } from '../store/call-windows.ts';
import type { Store } from '../store/store.ts';

export type CallLimitSettings = Pick<Settings, 'levels' | 'limits' | 'upstreams'>;

type Limited = { id: string; calls?: string | Rate | undefined };

/** Who calls, or whose limits are shown. */
export type LimitedCaller = {
  /** Of a person; undefined for a machine and a minted token. */
  accountId?: string | undefined;
  /** The id of the grant or of the minted token. */
  connection: string;
  connector?: { id: string; calls?: string } | undefined;
  /** The machine's client id. */
  machine?: Limited | undefined;
  /** The rule of a workload. */
  workload?: Limited | undefined;
  token?: { id: string; calls?: string } | undefined;
  upstream: string | undefined;
};

/** Those of other connections too. */
export const SHARED_LIMITS: ReadonlySet<CallLimitKind> = new Set(['person', 'connector']);

/** `of` is the level or the tool. */
export type CallLimit = { kind: CallLimitKind; of?: string; window: CallWindow };

/** What a call is about. */
export type LimitedCall = { level: Level; tool: string | undefined };

/** Whether calls of anybody have to keep a limit of the settings. */
export function haveLimits(settings: CallLimitSettings): boolean {
  const known = areLimited.get(settings);
  if (known !== undefined) return known;
  const { levels, limits, upstreams } = settings;
  const isLimited =
    limits.calls.perPerson !== undefined ||
    limits.calls.perConnection !== undefined ||
    levels.some(({ calls }) => calls !== undefined) ||
    upstreams.some(({ tools }) => tools.some(({ calls }) => calls !== undefined));
  areLimited.set(settings, isLimited);
  return isLimited;
}

const areLimited = new WeakMap<CallLimitSettings, boolean>();

/** Returns the limits that a call must keep. */
export function limitsOfCall(
  settings: CallLimitSettings,
  caller: LimitedCaller,
  { level, tool }: LimitedCall,
): CallLimit[] {
  const limits = ownLimits(settings, caller);
  const ofLevel = settings.levels.find(({ id }) => id === level);
  if (ofLevel?.calls) limits.push(levelLimit(caller, level, ofLevel.calls));
  const ofTool = tool === undefined ? undefined : findTool(settings, caller, tool);
  if (ofTool?.calls) limits.push(toolLimit(caller, ofTool.name, ofTool.calls));
  return limits;
}

/** Returns all limits that a call of this caller may have to keep. */
export function limitsOfCaller(settings: CallLimitSettings, caller: LimitedCaller): CallLimit[] {
  return [...ownLimits(settings, caller), ...partialLimits(settings, caller)];
}

/** Returns the limit that all calls of a person keep together. */
export function limitsOfPerson(settings: CallLimitSettings, accountId: string): CallLimit[] {
  const caller = { accountId, connection: '', upstream: undefined };
  return ownLimits(settings, caller).filter(({ kind }) => kind === 'person');
}

/** Those that all calls of the caller keep. */
function ownLimits(
  { limits: { calls } }: CallLimitSettings,
  { accountId, connection, connector, machine, workload, token }: LimitedCaller,
): CallLimit[] {
  const limits: CallLimit[] = [];
  const add = (kind: CallLimitKind, id: string | undefined, rate: Rate | string | undefined) => {
    if (id === undefined || rate === undefined) return;
    const { count, seconds } = typeof rate === 'string' ? parseRate(rate) : rate;
    limits.push({ kind, window: { name: `${kind} ${id}`, count, seconds } });
  };
  add('person', accountId, calls.perPerson);
  add('connection', connection, calls.perConnection);
  add('connector', connector?.id, connector?.calls);
  add('machine', machine?.id, machine?.calls);
  add('workload', workload?.id, workload?.calls);
  add('token', token?.id, token?.calls);
  return limits;
}

/** Those of its levels and tools. */
function partialLimits(settings: CallLimitSettings, caller: LimitedCaller): CallLimit[] {
  const tools = upstreamOf(settings, caller)?.tools ?? [];
  return [
    ...settings.levels.flatMap(({ id, calls }) => (calls ? [levelLimit(caller, id, calls)] : [])),
    ...tools.flatMap(({ name, calls }) => (calls ? [toolLimit(caller, name, calls)] : [])),
  ];
}

function levelLimit({ connection }: LimitedCaller, level: Level, rate: Rate): CallLimit {
  return { kind: 'level', of: level, window: { name: `level ${level} ${connection}`, ...rate } };
}

function toolLimit({ connection, upstream }: LimitedCaller, tool: string, rate: Rate): CallLimit {
  const name = `tool ${upstream ?? DEFAULT_UPSTREAM} ${connection} ${tool}`;
  return { kind: 'tool', of: tool, window: { name, ...rate } };
}

function upstreamOf({ upstreams }: CallLimitSettings, { upstream }: LimitedCaller) {
  return findUpstream(upstreams, { upstream });
}

function findTool(settings: CallLimitSettings, caller: LimitedCaller, tool: string) {
  return upstreamOf(settings, caller)?.tools.find(({ name }) => name === tool);
}

export type UsedLimit = CallLimit & { used: number; secondsLeft?: number };

/** Resolves to what was used of each limit. */
export function readUsage(
  windows: Pick<CallWindows, 'read'>,
  limits: readonly CallLimit[],
): Promise<UsedLimit[]> {
  return Promise.all(
    limits.map(async (limit): Promise<UsedLimit> => {
      const read = await windows.read(limit.window);
      if (!read) return { ...limit, used: 0 };
      const used = Math.min(Math.max(read.count, 0), limit.window.count);
      return { ...limit, used, secondsLeft: read.secondsLeft };
    }),
  );
}

/** Exists from the first refusal in a window until the window ends. */
export function reachedKey({ name, seconds }: CallWindow): string {
  return `limit-reached:${name} ${seconds}`;
}

/** Begins the windows of the connection anew, but none that others share. */
export async function resetLimits(
  store: Pick<Store, 'delete'> & { callWindows: Pick<CallWindows, 'reset'> },
  limits: readonly CallLimit[],
): Promise<void> {
  const own = limits.filter(({ kind }) => !SHARED_LIMITS.has(kind));
  await Promise.all(
    own.map(async ({ window }) => {
      await store.callWindows.reset(window);
      await store.delete(reachedKey(window));
    }),
  );
}
