// The state that a client sends back when it repeats a request with more input (`requestState`, MCP 2026-07-28), bound to who was given it.
import type { Caller } from '../level.ts';
import type { Handles } from './handles.ts';
import type { Message } from './message.ts';

/** The state as the upstream gave it out, `foreign` when it was not given to this caller, undefined when there is none. */
export function stateOf(
  handles: Handles,
  caller: Caller,
  { params }: Message,
): { state: string } | 'foreign' | undefined {
  const bound = params?.['requestState'];
  if (bound === undefined) return undefined;
  const state = typeof bound === 'string' ? handles.unbind('state', caller, bound) : undefined;
  return state === undefined ? 'foreign' : { state };
}

/** The message with the state as the upstream gave it out. */
export function withOwnState(handles: Handles, caller: Caller, message: Message): Message {
  const found = stateOf(handles, caller, message);
  if (found === undefined || found === 'foreign') return message;
  return { ...message, params: { ...message.params, requestState: found.state } };
}

/** The result with a state that only this caller can send back. */
export function withBoundState(
  handles: Handles,
  caller: Caller,
  result: Record<string, unknown>,
): Record<string, unknown> {
  const { requestState } = result;
  if (typeof requestState !== 'string') return result;
  return { ...result, requestState: handles.bind('state', caller, requestState) };
}
