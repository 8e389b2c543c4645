// One request to the upstream and its answer, for as long as patience lasts, the client is there and the call may go on.
import type Koa from 'koa';
import type { Logger } from 'pino';
import type { Dispatcher } from 'undici';
import { asHttpError, type HttpError } from '../../http/errors.ts';
import type { SpanLink } from '../../observability/tracing.ts';
import { type Answered, answerWith } from './answer.ts';
import { passEvents } from './event-stream.ts';
import { clientGone, faultOf } from './faults.ts';
import { isRequest, isSubscription, type Message, type MessageId } from './message.ts';
import { ProcessStops } from '../open-calls.ts';
import { openPatience } from './patience.ts';
import { failure, subscriptionOver } from './refusals.ts';
import { requestContext } from '../../http/request-context.ts';

export type ExchangeOptions = {
  /** Sends to the upstream. No redirect is followed, and nothing is sent twice. */
  send: (request: Outbound) => Promise<Answered>;
  /** Seconds: until the answer is there or its stream begins, and while the stream is silent. */
  timeout: number;
  silence: number;
  /** Bytes. */
  maxAnswerBytes: number;
  logger: Logger;
};

/** The text of the messages, as part of our trace where there is one. */
export type Body = (traceparent: string | undefined) => string;

export type Outbound = {
  method: Dispatcher.HttpMethod;
  headers: Record<string, string>;
  body?: Body;
  /** What the client says it belongs to. */
  links: readonly SpanLink[];
  signal: AbortSignal;
};

export type Exchange = Omit<Outbound, 'signal'> & {
  messages: readonly Message[];
  /** Aborted when the call may not go on. */
  signal: AbortSignal;
  pass: (message: unknown) => Promise<unknown>;
  bindSession: (id: string) => string;
  bindEvent: (id: string) => string;
  /** Called once, when all is over. */
  end: () => void;
};

/** After this a client that reads nothing any more is cut off. Milliseconds. */
const LAST_WORDS = 1000;
const NOT_REACHED = -32_000;

/** Resolves when the answer is there, or its stream has begun. Throws what the caller is to be told. */
export async function exchange(
  ctx: Koa.Context,
  options: ExchangeOptions,
  call: Exchange,
): Promise<void> {
  const watch = watchOver(ctx, options, call);
  const { method, headers, body, links, messages } = call;
  try {
    const outbound = { method, headers, links, ...(body === undefined ? {} : { body }) };
    const answered = await options.send({ ...outbound, signal: watch.signal });
    const isStreaming = await answerWith(ctx, answered, {
      ...call,
      isAnswerDue: messages.some(isRequest),
      limit: options.maxAnswerBytes,
      stream: (source) => streamed(ctx, source, options, call, watch),
    });
    if (!isStreaming) watch.end();
  } catch (error) {
    const fault = faultOf(watch.signal, error);
    // What is left of an answer that nobody reads would keep its connection.
    watch.leave();
    throw fault;
  }
}

type Watch = ReturnType<typeof watchOver>;

function watchOver(ctx: Koa.Context, { timeout }: ExchangeOptions, { signal, end }: Exchange) {
  const patience = openPatience(timeout);
  const gone = new AbortController();
  const leave = () => {
    gone.abort(clientGone());
    patience.end();
    end();
  };
  ctx.res.once('close', leave);
  if (ctx.res.destroyed) leave();
  return {
    patience,
    signal: AbortSignal.any([signal, patience.signal, gone.signal]),
    leave,
    end() {
      ctx.res.off('close', leave);
      patience.end();
      end();
    },
  };
}

async function* streamed(
  ctx: Koa.Context,
  source: AsyncIterable<Buffer>,
  { silence, maxAnswerBytes, logger }: ExchangeOptions,
  { messages, pass, bindEvent }: Exchange,
  { patience, signal, end }: Watch,
): AsyncGenerator<string> {
  patience.waitOnly(silence);
  const cutOff = () => void setTimeout(() => ctx.res.destroy(), LAST_WORDS).unref();
  signal.addEventListener('abort', cutOff, { once: true });
  try {
    yield* passEvents(source, {
      limit: maxAnswerBytes,
      pass,
      bindEvent,
      awaited: messages.filter(isRequest).flatMap(({ id }) => (id === undefined ? [] : [id])),
      heard: patience.heard,
      explain(error) {
        const fault = asHttpError(faultOf(signal, error));
        if (fault.cause instanceof ProcessStops) return lastWord(messages, fault);
        if (fault.status >= 500) {
          // The status was sent long ago: only log and metrics can still say it.
          requestContext(ctx).failure = { code: fault.code };
          logger.warn({ err: fault.cause ?? fault }, 'a stream of the upstream broke');
        }
        return (id) => failure(id, { code: NOT_REACHED, message: fault.message });
      },
    });
  } finally {
    signal.removeEventListener('abort', cutOff);
    end();
  }
}

/** A subscription is over, which is no fault: its client asks for another one. */
function lastWord(messages: readonly Message[], { message }: HttpError) {
  const subscriptions = new Set(messages.filter(isSubscription).map(({ id }) => id));
  return (id: MessageId) =>
    subscriptions.has(id) ? subscriptionOver(id) : failure(id, { code: NOT_REACHED, message });
}
