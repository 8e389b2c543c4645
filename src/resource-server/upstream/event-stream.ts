// A stream of the upstream (server-sent events), passed on event by event: each is whole, checked, and for this caller only.
import { createParser, type EventSourceMessage, type ParseError } from 'eventsource-parser';
import { isObject, membersOf } from '../messages.ts';
import { isUnchanged, passAll } from './answer.ts';
import { badGateway } from './faults.ts';
import type { MessageId } from './message.ts';

export type EventStreamOptions = {
  /** The largest event, in characters. */
  limit: number;
  /** A message as the caller may have it: the same object when nothing is changed, undefined when it is dropped. */
  pass: (message: unknown) => Promise<unknown>;
  bindEvent: (id: string) => string;
  /** The requests that this stream is to answer. */
  awaited: readonly MessageId[];
  heard: () => void;
  /** What a request is answered with when the stream breaks; also the place to log it. */
  explain: (error: unknown) => (id: MessageId) => object;
};

/**
 * Never throws. When the stream breaks before everything was answered, the rest is answered with an error, so that nobody waits for
 * ever; but not where the client can take up the stream again by an event id.
 */
export async function* passEvents(
  source: AsyncIterable<Buffer>,
  options: EventStreamOptions,
): AsyncGenerator<string> {
  const reader = openReader(options);
  try {
    for await (const chunk of source) {
      options.heard();
      for (const event of reader.read(chunk)) yield await reader.pass(event);
    }
    if (reader.unanswered().length === 0) return;
    throw badGateway(new Error('the stream of the upstream ended before it answered'));
  } catch (error) {
    const answerTo = options.explain(error);
    for (const id of reader.unanswered())
      yield encode({ event: 'message', data: JSON.stringify(answerTo(id)) });
  }
}

type Comment = 'comment';
type Received = EventSourceMessage & { retry: number | undefined };

const EMPTY_COMMENT = ':\n\n';

function openReader({ limit, pass, bindEvent, awaited }: EventStreamOptions) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const open = new Set(awaited);
  const received: (Received | Comment)[] = [];
  let isResumable = false;
  let retry: number | undefined;
  const parser = createParser({
    maxBufferSize: limit,
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
    async pass(event: Received | Comment): Promise<string> {
      if (event === 'comment') return EMPTY_COMMENT;
      if (event.id) isResumable = true;
      const data = await passData(event, pass, open);
      if (data === undefined && !event.id) return EMPTY_COMMENT;
      const bound = event.id ? { ...event, id: bindEvent(event.id) } : event;
      return encode({ ...bound, data: data ?? '' });
    },
    unanswered: () => (isResumable ? [] : [...open]),
  };
}

/** Undefined when every message in it is dropped. Other kinds of events mean nothing in MCP: they go on without what they carry. */
async function passData(
  { event = 'message', data }: EventSourceMessage,
  pass: EventStreamOptions['pass'],
  open: Set<MessageId>,
): Promise<string | undefined> {
  if (event !== 'message' || data === '') return '';
  const parsed: unknown = JSON.parse(data);
  const messages = Array.isArray(parsed) ? parsed : [parsed];
  if (!messages.every(isObject)) throw new Error('the upstream sent an event that is no message');
  const passed = await passAll(messages, pass);
  for (const { id, method } of messages.map(membersOf))
    if (method === undefined) open.delete(id as MessageId);
  if (isUnchanged(passed, messages)) return data;
  if (passed.length === 0) return undefined;
  return JSON.stringify(Array.isArray(parsed) ? passed : passed[0]);
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
