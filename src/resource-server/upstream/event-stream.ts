// Forwards a stream of server-sent events from the upstream, each event validated and filtered for the caller.
import { createParser, type EventSourceMessage, type ParseError } from 'eventsource-parser';
import { isObject, membersOf } from '../json-rpc.ts';
import type { MessageId } from './messages.ts';
import { badGateway, filterAll, type FilterMessage, isUnchanged } from './response.ts';

export type EventStreamOptions = {
  /** Characters. */
  maxEventLength: number;
  filter: FilterMessage;
  bindEvent: (id: string) => string;
  /** The requests whose responses the stream must contain. */
  requestIds: readonly MessageId[];
  /** Called for each chunk. */
  onData: () => void;
  /** Called if the stream breaks. Returns the function that makes the response to each open request. */
  onBreak: (error: unknown) => (id: MessageId) => object;
};

/**
 * Never throws. If the stream breaks, yields an error response for each open request, unless the client can resume the stream by an event
 * id.
 */
export async function* filterEvents(
  source: AsyncIterable<Buffer>,
  options: EventStreamOptions,
): AsyncGenerator<string> {
  const reader = openReader(options);
  try {
    for await (const chunk of source) {
      options.onData();
      for (const event of reader.read(chunk)) yield await reader.forward(event);
    }
    if (reader.unanswered().length === 0) return;
    throw badGateway(new Error('the stream of the upstream ended before its responses'));
  } catch (error) {
    const responseTo = options.onBreak(error);
    for (const id of reader.unanswered())
      yield encode({ event: 'message', data: JSON.stringify(responseTo(id)) });
  }
}

type Comment = 'comment';
type Received = EventSourceMessage & { retry: number | undefined };

const EMPTY_COMMENT = ':\n\n';

function openReader({ maxEventLength, filter, bindEvent, requestIds }: EventStreamOptions) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const open = new Set(requestIds);
  const received: (Received | Comment)[] = [];
  let isResumable = false;
  let retry: number | undefined;
  const parser = createParser({
    maxBufferSize: maxEventLength,
    onEvent(event) {
      received.push({ ...event, retry });
      retry = undefined;
    },
    onComment: () => void received.push('comment'),
    onRetry: (milliseconds) => void (retry = milliseconds),
    onError: refuseTooLarge,
  });
  return {
    read(chunk: Buffer): (Received | Comment)[] {
      parser.feed(decoder.decode(chunk, { stream: true }));
      return received.splice(0);
    },
    async forward(event: Received | Comment): Promise<string> {
      if (event === 'comment') return EMPTY_COMMENT;
      if (event.id) isResumable = true;
      const data = await filterData(event, filter, open);
      if (data === undefined && !event.id) return EMPTY_COMMENT;
      const bound = event.id ? { ...event, id: bindEvent(event.id) } : event;
      return encode({ ...bound, data: data ?? '' });
    },
    unanswered: () => (isResumable ? [] : [...open]),
  };
}

/** Returns undefined if every message is dropped. Events of other types have no meaning in MCP and lose their data. */
async function filterData(
  { event = 'message', data }: EventSourceMessage,
  filter: FilterMessage,
  open: Set<MessageId>,
): Promise<string | undefined> {
  if (event !== 'message' || data === '') return '';
  const parsed: unknown = JSON.parse(data);
  const messages = Array.isArray(parsed) ? parsed : [parsed];
  if (!messages.every(isObject))
    throw new Error('the upstream sent an event that is not a message');
  const filtered = await filterAll(messages, filter);
  for (const { id, method } of messages.map(membersOf))
    if (method === undefined) open.delete(id as MessageId);
  if (isUnchanged(filtered, messages)) return data;
  if (filtered.length === 0) return undefined;
  return JSON.stringify(Array.isArray(parsed) ? filtered : filtered[0]);
}

function refuseTooLarge(error: ParseError): void {
  if (error.type === 'max-buffer-size-exceeded') throw error;
}

function encode({ event, id, data, retry }: EventSourceMessage & { retry?: number | undefined }) {
  const lines = [
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(retry === undefined ? [] : [`retry: ${retry}`]),
    ...data.split('\n').map((line) => `data: ${line}`),
  ];
  return `${lines.join('\n')}\n\n`;
}
