// Answers that the upstream never hears of: calls above what the caller can ever have, and calls that could not be recorded.
import { type Caller, decide, refusal } from '../level.ts';
import { isRequest, type Message, type MessageId } from './message.ts';
import { type LevelRules, neededBy } from './needed-level.ts';

export type Failure = { code: number; message: string };

/** JSON-RPC 2.0 section 5.1. */
const INTERNAL_ERROR = -32_603;
/** -32000 to -32099 are the server's own. */
const REFUSED = -32_000;
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

export type RefusalOptions = { rules: LevelRules; productName: string };

/** Undefined when every message may go on. One that may not holds up its whole batch: nothing of it runs. */
export function refusalOf(
  options: RefusalOptions,
  caller: Caller,
  messages: readonly Message[],
): object[] | undefined {
  const texts = messages.map((message) => refusalText(options, caller, message));
  if (texts.every((text) => text === undefined)) return undefined;
  return messages.flatMap((message, n) => (isRequest(message) ? [refuse(message, texts[n])] : []));
}

function refusalText(
  { rules, productName }: RefusalOptions,
  caller: Caller,
  message: Message,
): string | undefined {
  const needed = neededBy(rules, message);
  const decision = needed ? decide(caller, needed.level) : 'allowed';
  return needed && decision !== 'allowed'
    ? refusal(productName, caller, needed, decision)
    : undefined;
}

/** A tool error is something an assistant reads and can explain to the person. */
function refuse({ id, method }: Message, text: string | undefined): object {
  if (text === undefined)
    return failure(id, {
      code: REFUSED,
      message: 'This was not done, because another call of the same batch was refused.',
    });
  if (method !== 'tools/call') return failure(id, { code: REFUSED, message: text });
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
