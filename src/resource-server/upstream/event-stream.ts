// A stream of the upstream (server-sent events), passed on event by event: each is whole, checked, and for this caller only.
import { createParser, type EventSourceMessage, type ParseError } from 'eventsource-parser';
import { isObject, membersOf } from '../messages.ts';
import { badGateway } from './faults.ts';
import type { MessageId } from './message.ts';

export type EventStreamOptions = {
  /** The largest event, in characters. */
  limit: number;
  /** A message as the caller may have it; the same object when nothing is changed. */
  pass: (message: unknown) => unknown;
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
      yield* reader.read(chunk);
    }
    if (reader.unanswered().length === 0) return;
    throw badGateway(new Error('the stream of the upstream ended before it answered'));
  } catch (error) {
    const answerTo = options.explain(error);
    for (const id of reader.unanswered())
      yield encode({ event: 'message', data: JSON.stringify(answerTo(id)) });
  }
}

function openReader({ limit, pass, bindEvent, awaited }: EventStreamOptions) {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const open = new Set(awaited);
  const ready: string[] = [];
  let isResumable = false;
  let retry: number | undefined;
  const parser = createParser({
    maxBufferSize: limit,
    onEvent(event) {
      if (event.id) isResumable = true;
      const bound = event.id ? { ...event, id: bindEvent(event.id) } : event;
      ready.push(encode({ ...bound, data: passData(event, pass, open), retry }));
      retry = undefined;
    },
    onComment: () => void ready.push(':\n\n'),
    onRetry: (milliseconds) => void (retry = milliseconds),
    onError: refuseTooLarge,
  });
  return {
    read(chunk: Buffer): string[] {
      parser.feed(decoder.decode(chunk, { stream: true }));
      return ready.splice(0);
    },
    unanswered: () => (isResumable ? [] : [...open]),
  };
}

/** Other kinds of events mean nothing in MCP: they go on without what they carry. */
function passData(
  { event = 'message', data }: EventSourceMessage,
  pass: EventStreamOptions['pass'],
  open: Set<MessageId>,
): string {
  if (event !== 'message' || data === '') return '';
  const parsed: unknown = JSON.parse(data);
  const messages = Array.isArray(parsed) ? parsed : [parsed];
  if (!messages.every(isObject)) throw new Error('the upstream sent an event that is no message');
  const passed = messages.map(pass);
  for (const { id, method } of messages.map(membersOf))
    if (method === undefined) open.delete(id as MessageId);
  if (passed.every((message, n) => message === messages[n])) return data;
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
