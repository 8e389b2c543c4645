// The trace context in messages for the upstream (MCP 2026-07-28, `_meta`; SEP-414): ours in place of the client's, which is linked.
import { parseTraceparent, type SpanLink } from '../../observability/tracing.ts';
import { isObject, membersOf } from '../messages.ts';
import { isRequest, type Message } from './message.ts';

const MOST_LINKS = 8;

/** Nothing of the client's context remains: its `tracestate` belongs to its `traceparent`. */
export function withTraceparent(message: Message, traceparent: string): Message {
  const { params = {} } = message;
  const meta = params['_meta'] ?? {};
  if (!isRequest(message) || !isObject(meta)) return message;
  const { tracestate: _dropped, ...kept } = meta;
  return { ...message, params: { ...params, _meta: { ...kept, traceparent } } };
}

export function linksIn(messages: readonly Message[]): SpanLink[] {
  return messages
    .slice(0, MOST_LINKS)
    .flatMap(({ params }) => parseTraceparent(membersOf(params?.['_meta'])['traceparent']));
}
