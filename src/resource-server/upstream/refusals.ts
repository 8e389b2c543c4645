// Answers that the upstream never hears of: calls that the caller may not make, and calls that could not be recorded.
import { type Caller, decide, refusal } from '../level.ts';
import type { Handles } from './handles.ts';
import { isRequest, type Message, type MessageId } from './message.ts';
import { isLookalike, type LevelRules, neededBy } from './needed-level.ts';
import { stateOf } from './request-state.ts';
import { isOwn, tasksNamedIn } from './tasks.ts';

export type Failure = { code: number; message: string };

/** JSON-RPC 2.0 section 5.1. */
const INTERNAL_ERROR = -32_603;
const INVALID_PARAMS = -32_602;
/** -32000 to -32099 are the server's own. */
const REFUSED = -32_000;
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

export type RefusalOptions = {
  rules: LevelRules;
  productName: string;
  handles: Handles;
  /** The ids of the tasks that the caller may use. */
  ownTasks: ReadonlySet<string>;
};

/** Undefined when every message may go on. One that may not holds up its whole batch: nothing of it runs. */
export function refusalOf(
  options: RefusalOptions,
  caller: Caller,
  messages: readonly Message[],
): object[] | undefined {
  const refusals = messages.map((message) => refuse(options, caller, message));
  if (refusals.every((refused) => refused === undefined)) return undefined;
  return messages.flatMap((message, n) =>
    isRequest(message) ? [refusals[n] ?? failure(message.id, HELD_UP)] : [],
  );
}

const HELD_UP = {
  code: REFUSED,
  message: 'This was not done, because another call of the same batch was refused.',
};
/** What a server says to an id that it never gave out. */
export const TASK_NOT_FOUND = { code: INVALID_PARAMS, message: 'Task not found' };
const UNKNOWN_TOOL = { code: INVALID_PARAMS, message: 'Unknown tool' };
const UNKNOWN_STATE = { code: INVALID_PARAMS, message: 'Unknown requestState' };

function refuse(
  { rules, productName, handles, ownTasks }: RefusalOptions,
  caller: Caller,
  message: Message,
): object | undefined {
  const { id, method, params } = message;
  if (method === 'tools/call' && isLookalike(rules, params?.['name']))
    return failure(id, UNKNOWN_TOOL);
  if (tasksNamedIn(message).some((task) => !isOwn(ownTasks, task)))
    return failure(id, TASK_NOT_FOUND);
  if (stateOf(handles, caller, message) === 'foreign') return failure(id, UNKNOWN_STATE);
  const needed = neededBy(rules, message);
  const decision = needed ? decide(caller, needed.level) : 'allowed';
  if (!needed || decision === 'allowed') return undefined;
  const text = refusal(productName, caller, needed, decision);
  return method === 'tools/call'
    ? toolError(id, text)
    : failure(id, { code: REFUSED, message: text });
}

/** A tool error is something an assistant reads and can explain to the person. */
function toolError(id: unknown, text: string): object {
  const result = { resultType: 'complete', isError: true, content: [{ type: 'text', text }] };
  return { jsonrpc: '2.0', id, result };
}

export function failuresFor(messages: readonly Message[], message: string): object[] {
  return messages.filter(isRequest).map(({ id }) => failure(id, { code: INTERNAL_ERROR, message }));
}

export function failure(id: unknown, error: Failure): object {
  return { jsonrpc: '2.0', id: id ?? null, error };
}

/** What ends a stream of `subscriptions/listen` in peace (MCP 2026-07-28). */
export function subscriptionOver(id: MessageId): object {
  const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: id } };
  return { jsonrpc: '2.0', id, result };
}
