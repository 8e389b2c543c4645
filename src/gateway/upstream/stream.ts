// Filters the event streams of the upstream, and forwards them.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { setImmediate as nextImmediate } from 'node:timers/promises';
import type Koa from 'koa';
import { beginResponse } from '../../http/deferred-headers.ts';
import { type RequestContext, requestContext, trimClosed } from '../../http/request-context.ts';
import { idText, type MessageId } from '../json-rpc.ts';
import type { ChunkReader, StreamControl } from './exchange.ts';
import { filterAll, type MessageFilter } from './filter.ts';
import { badGateway } from './gateway-errors.ts';
import {
  type Comment,
  encodeEvent,
  EventReader,
  isResponse,
  matchResponses,
  type ReceivedEvent,
  requireIdentity,
  type RpcMessage,
  type SkippedEvents,
  writeMessages,
} from './messages.ts';
import {
  LARGE_MESSAGE,
  type LargeMessages,
  NOTHING_UNREAD,
  readLargeEvent,
  withUnread,
} from './large-messages.ts';
import { forwardHeaders } from './response.ts';

export type EventStreamOptions = MessageFilter &
  SkippedEvents & {
    /** The maximum length of an event, in characters. */
    readonly maxEventLength: number;
    /** The requests whose responses the stream must contain. */
    readonly requestIds: readonly MessageId[];
    /** Whether the stream may contain responses to any request. */
    readonly answersAny: boolean;
    /** To messages of the batch that were not forwarded. */
    readonly localResponses: readonly RpcMessage[];
    /** Whether the client only waits for notifications, which may not come for long. */
    readonly isListening: boolean;
    /** Seconds until a comment is sent on an idle stream. */
    readonly heartbeat: number;
    /** Called with the bytes of events that the client has not read. The upstream waits for the promise; the stream breaks if it rejects. */
    holdBytes(bytes: number): Promise<void> | undefined;
    /** Called with the data of each event, before anything reads it. */
    mask(data: string): string;
    /** Called with each response as the upstream sent it, once it is certain to be passed on. */
    onAnswer(message: RpcMessage): void;
    bindSession(id: string): string;
    bindEvent(id: string): string;
    /** Throws if the call has ended. Called before an event is passed on. */
    requireActive(): void;
    /** Called for each chunk. */
    onData(): void;
    /** Called when the stream has ended. */
    onEnd(): void;
    /** Called if the stream ends before its responses, and the client can resume it. */
    onSuspended(): void;
    /** Called if the stream breaks. */
    onBreak(error: unknown): BrokenStream;
  };

export type BrokenStream = {
  /** Makes the response to each open request. */
  responseTo: (id: MessageId) => object;
  /** Milliseconds after which the client connects again. */
  retry: number | undefined;
  /** Sent before the stream ends. */
  notification: object | undefined;
};

/** Begins the response, and returns what filters and forwards the events. Throws HttpError if the upstream's headers are invalid. */
export function openStream(
  ctx: Koa.Context,
  headers: IncomingHttpHeaders,
  control: StreamControl,
  options: EventStreamOptions,
): ChunkReader {
  requireIdentity(headers['content-encoding']);
  forwardHeaders(ctx, headers, options);
  beginEventStream(ctx);
  return new EventForwarder(ctx, control, options);
}

/** Sends the headers with the first event if it comes at once. It may come late, and the client waits for the status. */
export function beginEventStream(ctx: Koa.Context): void {
  const { res } = ctx;
  beginResponse(ctx, 200, STREAM_HEADERS);
  requestContext(ctx).isEventStream = true;
  trimClosed(ctx);
  setImmediate(() => {
    if (requestContext(ctx).sentBytes === undefined && !res.writableEnded) res.flushHeaders();
  });
}

/**
 * Node keeps the head of a response until it ends, although it asks only whether there is one as soon as it is written: 2.6 kB of each stream
 * that waits.
 */
function dropWrittenHead(res: ServerResponse & { _header?: string; _headerSent?: boolean }): void {
  if (res._header && res._headerSent) res._header = 'written';
}

const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
};

/** Chunks that arrive while so many events wait stop the upstream. */
const MAX_WAITING = 16;
/** A chunk may have thousands. */
const EVENTS_PER_TURN = 64;

/** Ends the response when the stream ends. If it breaks, first sends an error response for each open request, unless the client can resume the stream by an event id. */
class EventForwarder implements ChunkReader {
  readonly #res: ServerResponse;
  readonly #context: RequestContext;
  readonly #control: StreamControl;
  readonly #options: EventStreamOptions;
  readonly #reader: EventFilter;
  #waiting: (ReceivedEvent | Comment)[] = [];
  /** Bytes of the events that wait, and of the event that is not complete. */
  #received = 0;
  #incomplete = 0;
  #wait: Promise<void> | undefined;
  #isForwarding = false;
  #isDraining = false;
  #isEnded = false;
  /** Proxies in front cut idle streams, and some hold the headers back until the first byte. */
  readonly #heartbeat: NodeJS.Timeout;
  /** Set when no more chunks come. */
  #outcome: 'ended' | { error: unknown } | undefined;

  constructor(ctx: Koa.Context, control: StreamControl, options: EventStreamOptions) {
    this.#res = ctx.res;
    this.#context = requestContext(ctx);
    this.#control = control;
    this.#options = options;
    this.#reader = new EventFilter(options);
    const sendComment = () => {
      if (!this.#isForwarding) this.#write(EMPTY_COMMENT);
    };
    this.#heartbeat = setInterval(sendComment, options.heartbeat * 1000).unref();
    if (options.isListening) {
      sendComment();
      dropWrittenHead(ctx.res);
    }
    for (const message of options.localResponses)
      this.#write(encodeEvent({ event: 'message', data: JSON.stringify(message) }));
  }

  read(chunk: Buffer): void {
    if (this.#isEnded) return;
    this.#options.onData();
    try {
      const events = this.#reader.read(chunk);
      this.#received += chunk.length;
      this.#incomplete = chunk.length + (events.length > 0 ? 0 : this.#incomplete);
      this.#waiting.push(...events);
    } catch (error) {
      return this.fail(error);
    }
    this.#hold(this.#received);
    if (!this.#isForwarding) void this.#forward();
    else if (this.#waiting.length > MAX_WAITING) this.#control.pause();
  }

  end(): void {
    this.#outcome ??= 'ended';
    if (!this.#isForwarding) this.#finish();
  }

  fail(error: unknown): void {
    if (!this.#hasFailed()) this.#outcome = { error };
    if (!this.#isForwarding || this.#isDraining) this.#finish();
  }

  #hasFailed(): boolean {
    return typeof this.#outcome === 'object';
  }

  async #forward(): Promise<void> {
    this.#isForwarding = true;
    try {
      let forwarded = 0;
      for (let event = this.#waiting.shift(); event; event = this.#waiting.shift()) {
        forwarded += 1;
        if (forwarded % EVENTS_PER_TURN === 0) await nextImmediate();
        const { pieces, answers } = await this.#reader.forward(event);
        if (this.#isEnded) return;
        this.#options.requireActive();
        this.#heartbeat.refresh();
        this.#reader.noteAnswers(answers);
        const isRead = this.#writeAll(pieces);
        if (!isRead && this.#hasFailed()) break;
        if (!isRead) await this.#drain();
      }
    } catch (error) {
      this.#outcome = { error };
    }
    this.#isForwarding = false;
    if (this.#outcome !== undefined) return this.#finish();
    this.#received = this.#incomplete;
    this.#hold(this.#received);
    this.#resume();
  }

  #writeAll(pieces: readonly (string | Buffer)[]): boolean {
    let isRead = true;
    for (const piece of pieces) isRead = this.#write(piece);
    return isRead;
  }

  /** Returns false if the client has not read all of it. */
  #write(text: string | Buffer): boolean {
    this.#context.sentBytes = (this.#context.sentBytes ?? 0) + Buffer.byteLength(text);
    return this.#res.write(text);
  }

  /** The upstream waits while the bytes are not granted. */
  #hold(bytes: number): void {
    const wait = this.#options.holdBytes(bytes);
    this.#wait = wait;
    if (!wait) return;
    this.#control.pause();
    wait.then(
      () => {
        if (this.#wait !== wait) return;
        this.#wait = undefined;
        this.#resume();
      },
      (error: unknown) => this.fail(error),
    );
  }

  #resume(): void {
    if (!this.#isForwarding && !this.#wait) this.#control.resume();
  }

  /** The upstream waits until the client has read. */
  async #drain(): Promise<void> {
    this.#isDraining = true;
    this.#control.pause();
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#res.off('drain', done).off('close', done);
        resolve();
      };
      this.#res.on('drain', done).on('close', done);
    });
    this.#isDraining = false;
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearInterval(this.#heartbeat);
    const unanswered = this.#reader.unanswered();
    if (this.#outcome === 'ended' && this.#reader.isSuspended()) this.#options.onSuspended();
    if (this.#outcome !== 'ended' || unanswered.length > 0) {
      const { error } = typeof this.#outcome === 'object' ? this.#outcome : { error: incomplete() };
      const { responseTo, retry, notification } = this.#options.onBreak(error);
      for (const message of [notification ?? [], unanswered.map(responseTo)].flat())
        this.#write(encodeEvent({ event: 'message', data: JSON.stringify(message) }));
      if (retry !== undefined) this.#write(`retry: ${retry}\n\n`);
    }
    this.#res.end();
    this.#options.onEnd();
  }
}

function incomplete(): Error {
  return badGateway(new Error('the stream of the upstream ended before its responses'));
}

const EMPTY_COMMENT = ':\n\n';

class EventFilter {
  readonly #options: EventStreamOptions;
  readonly #reader: EventReader;
  /** Requests without a response so far, by the text of their ids. */
  readonly #open: Map<string, MessageId> | undefined;
  #isResumable = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#reader = new EventReader(options.maxEventLength, options);
    const { requestIds } = options;
    if (requestIds.length > 0) this.#open = new Map(requestIds.map((id) => [idText(id), id]));
  }

  read(chunk: Buffer): (ReceivedEvent | Comment)[] {
    return this.#reader.read(chunk);
  }

  /** What is written of the event. Its responses are in `answers`: call `noteAnswers` with them when it is. */
  async forward(event: ReceivedEvent | Comment): Promise<Filtered> {
    if (event === 'comment') return COMMENT;
    if (event.id) this.#isResumable = true;
    const { messages, unread, answers } = await this.#filterData({
      ...event,
      data: this.#options.mask(event.data),
    });
    if (messages === undefined && !event.id) return { ...COMMENT, answers };
    const bound = event.id ? { ...event, id: this.#options.bindEvent(event.id) } : event;
    const text = encodeEvent({ ...bound, data: messages ?? '' });
    return { pieces: withUnread(text, unread.map(asData)), answers };
  }

  noteAnswers(answers: readonly RpcMessage[]): void {
    for (const answer of answers) {
      this.#open?.delete(idText(answer['id'] as MessageId));
      this.#options.onAnswer(answer);
    }
  }

  isSuspended(): boolean {
    return this.#isResumable && (this.#open?.size ?? 0) > 0;
  }

  unanswered(): MessageId[] {
    return this.#isResumable || !this.#open ? [] : [...this.#open.values()];
  }

  /** Events of other types have no meaning in MCP and lose their data. */
  async #filterData(event: ReceivedEvent): Promise<FilteredData> {
    const { event: type = 'message', data } = event;
    if (type !== 'message' || data === '') return NO_DATA;
    const isLarge = data.length > LARGE_MESSAGE;
    const large = isLarge ? await this.#readLarge(event) : undefined;
    const read = isLarge ? large : this.#reader.messagesIn(event);
    if (!read) return NOTHING_LEFT;
    const { isBatch } = read;
    const { answersAny, requestIds } = this.#options;
    const received = answersAny ? read.messages : matchResponses(read.messages, requestIds);
    const messages = await filterAll(received, this.#options);
    const answers = received.filter(isResponse);
    if (messages.length === 0) return { ...NOTHING_LEFT, answers };
    return {
      messages: writeMessages({ messages, isBatch }),
      unread: large?.unread ?? NOTHING_UNREAD,
      answers,
    };
  }

  #readLarge(event: ReceivedEvent): Promise<LargeMessages | undefined> {
    const requireActive = () => this.#options.requireActive();
    return this.#reader.messagesBy((data) => readLargeEvent(data, requireActive), event);
  }
}

type Filtered = { pieces: readonly (string | Buffer)[]; answers: readonly RpcMessage[] };

const COMMENT: Filtered = { pieces: [EMPTY_COMMENT], answers: [] };

/** `messages` is undefined if none is left. */
type FilteredData = {
  messages: string | undefined;
  unread: readonly Buffer[];
  answers: readonly RpcMessage[];
};

const NO_DATA: FilteredData = { messages: '', unread: NOTHING_UNREAD, answers: [] };
const NOTHING_LEFT: FilteredData = { ...NO_DATA, messages: undefined };

const LINE_FEED = 0x0a;

/** Each line of an event has a prefix. */
function asData(value: Buffer): Buffer {
  if (!value.includes(LINE_FEED)) return value;
  return Buffer.from(value.toString('utf8').replaceAll('\n', '\ndata: '));
}
