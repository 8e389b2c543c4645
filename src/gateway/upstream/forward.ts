// Sends a call to the upstream, and forwards the response or stream while the call may last.
import type { IncomingHttpHeaders } from 'node:http';
import { asHttpError, type HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { RepeatRequest } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import { noteAnswer, noteSuspension } from '../call-audit.ts';
import { nextTurn } from '../event-loop.ts';
import type { Hold } from '../held-bytes.ts';
import { InBandError, inBandResponse } from '../in-band-error.ts';
import {
  errorResponse,
  isSubscription,
  type MessageId,
  SERVER_ERROR,
  subscriptionEnded,
} from '../json-rpc.ts';
import type { RequestOutline } from '../request-outline.ts';
import { CALLER_HEADER } from './caller-header.ts';
import type {
  ChunkReader,
  ExchangeOptions,
  StreamControl,
  UpstreamResponse,
  WholeResponse,
} from './exchange.ts';
import { filterMessage, type FilterOptions } from './filter.ts';
import type { Lifetime } from './lifetime.ts';
import { ForeignResponse, type RpcMessage } from './messages.ts';
import type { Proxy } from './proxy.ts';
import { maskBytes, maskText } from './quoting.ts';
import { forwardResponse, type ResponseOptions } from './response.ts';
import type { OutboundRequest } from './send.ts';
import { type BrokenStream, type EventStreamOptions, openStream } from './stream.ts';
import type { Renewal } from './without-credential.ts';

/** What of a call is forwarded. */
export type Forwarded = {
  /** As the upstream knows them. */
  caller: Caller;
  method: OutboundRequest['method'];
  headers: OutboundRequest['headers'];
  body: OutboundRequest['body'];
  links: OutboundRequest['links'];
  /** Without the client's notifications and responses. */
  requests: readonly RequestOutline[];
  filter: FilterOptions;
  /** With a credential of the person. */
  renewal: Renewal | undefined;
};

/**
 * A call while it is sent and its answer is read. One object answers all questions of those who send, read and filter, because a stream keeps
 * it for as long as it lasts, and a function for each question would take more memory than the rest.
 */
export class ForwardedCall
  implements OutboundRequest, ExchangeOptions, ResponseOptions, EventStreamOptions
{
  readonly proxy: Proxy;
  readonly call: AuthenticatedCall;
  readonly lifetime: Lifetime;
  readonly method: Forwarded['method'];
  readonly links: Forwarded['links'];
  readonly renewal: Forwarded['renewal'];
  readonly #caller: Forwarded['caller'];
  readonly #requests: Forwarded['requests'];
  readonly #filter: Forwarded['filter'];
  headers: Forwarded['headers'];
  body: Forwarded['body'];
  /** Held for the request. */
  #sentBytes: number | undefined;

  constructor(
    proxy: Proxy,
    call: AuthenticatedCall,
    lifetime: Lifetime,
    { caller, method, headers, body, links, requests, filter, renewal }: Forwarded,
  ) {
    this.proxy = proxy;
    this.call = call;
    this.lifetime = lifetime;
    this.method = method;
    this.links = links;
    this.renewal = renewal;
    this.#caller = caller;
    this.#requests = requests;
    this.#filter = filter;
    this.headers = headers;
    this.body = body;
  }

  get hold(): Hold {
    return this.call.hold;
  }

  get maxBytes(): number {
    return this.proxy.upstream.maxAnswerBytes;
  }

  /** One setting limits both, and a character of an event has at least a byte. */
  get maxEventLength(): number {
    return this.maxBytes;
  }

  get heartbeat(): number {
    return this.proxy.heartbeat;
  }

  get isListening(): boolean {
    return this.method === 'GET' || this.#requests.every(isSubscription);
  }

  get requestIds(): readonly MessageId[] {
    return this.#requests.map(({ id }) => id);
  }

  /** A client resumes a stream with GET. */
  get answersAny(): boolean {
    return this.method === 'GET';
  }

  get localResponses(): readonly RpcMessage[] {
    return this.call.limited ?? NOTHING;
  }

  get secrets(): Readonly<Record<string, string>> {
    return secretsIn(this.headers, this.proxy.upstream);
  }

  /** Counts bytes of the response beside the text of the request, which is held until the response ends. */
  holdBytes(bytes: number): Promise<void> | undefined {
    this.#sentBytes ??= this.hold.bytes;
    return this.hold.set(this.#sentBytes + bytes);
  }

  openStream(headers: IncomingHttpHeaders, control: StreamControl): ChunkReader {
    this.lifetime.restartTimer(this.proxy.upstream.silence);
    return openStream(this.call.ctx, headers, control, this);
  }

  filter(message: RpcMessage): Promise<RpcMessage | undefined> {
    return filterMessage(this.#filter, message);
  }

  mask(data: string): string {
    return this.renewal ? maskText(data, this.renewal.token()) : data;
  }

  bindSession(id: string): string {
    return this.proxy.ids.bind('session', this.#caller, id);
  }

  bindEvent(id: string): string {
    return this.proxy.ids.bind('event', this.#caller, id);
  }

  requireActive(): void {
    this.lifetime.requireActive();
  }

  onAnswer(message: RpcMessage): void {
    noteAnswer(this.call, message);
  }

  onSkipped(reason: string): undefined {
    return this.proxy.onSkipped(reason);
  }

  onData(): void {
    this.lifetime.refreshTimer();
  }

  onEnd(): void {
    this.lifetime.endWhenRead(this.proxy.upstream.silence);
  }

  onSuspended(): void {
    noteSuspension(this.call);
  }

  onBreak(error: unknown): BrokenStream {
    const { ctx } = this.call;
    const reason = this.lifetime.endReason(error);
    this.lifetime.abort(reason);
    setTimeout(() => ctx.res.destroy(), FLUSH_MS).unref();
    const fault = asHttpError(reason);
    if (fault.cause instanceof RepeatRequest)
      return {
        responseTo: endSubscriptions(this.#requests, fault),
        retry: fault.cause.retry,
        // In a subscription, the final response leads to a new list.
        notification: this.method === 'GET' ? fault.cause.notification : undefined,
      };
    if (fault.status >= 500) {
      // The status is already sent, so only the log and the metrics show the fault.
      requestContext(ctx).failure = { code: fault.code };
      const { logger } = this.proxy.services;
      logger.warn({ err: fault.cause ?? fault }, 'a stream of the MCP server failed');
    }
    const responseTo = (id: MessageId) => {
      const request = this.#requests.find((one) => one.id === id);
      if (request && fault instanceof InBandError) return inBandResponse(request, fault);
      return errorResponse(id, { code: SERVER_ERROR, message: fault.message });
    };
    return { responseTo, retry: undefined, notification: undefined };
  }
}

const NOTHING: readonly never[] = [];

/** How long an ended stream waits for the client to read its last events. */
const FLUSH_MS = 1000;

/** Ends subscriptions without an error, so that clients open new ones. */
function endSubscriptions(requests: readonly RequestOutline[], { message }: HttpError) {
  const subscriptions = new Set(requests.filter(isSubscription).map(({ id }) => id));
  return (id: MessageId) =>
    subscriptions.has(id)
      ? subscriptionEnded(id)
      : errorResponse(id, { code: SERVER_ERROR, message });
}

/** The headers that authenticate Gatehouse, the caller, the person and the session. */
function secretsIn(sent: Record<string, string>, { headers, credential }: Upstream) {
  const names = [
    ...Object.keys(headers),
    ...(credential ? [credential.header.name] : []),
    CALLER_HEADER,
    'mcp-session-id',
  ];
  return Object.fromEntries(Object.entries(sent).filter(([name]) => names.includes(name)));
}

/** Resolves when the response is complete or its stream has begun. Throws HttpError. */
export async function forward(forwarded: ForwardedCall): Promise<void> {
  const { proxy, call, lifetime, renewal } = forwarded;
  try {
    const turnToWrite = nextTurn(forwarded.hold.bytes);
    if (turnToWrite) await turnToWrite;
    lifetime.requireActive();
    const response = await sendWithCredential(proxy, forwarded, forwarded, lifetime);
    if (response.isStream) return;
    if (renewal) {
      maskBytes(response.body, renewal.token());
      if (response.status === 401) throw renewal.refused();
      if (response.status === 403) await renewal.forbidden(challengeOf(response));
    }
    const forwarding = forwardResponse(call, response, forwarded);
    if (forwarding) await forwarding;
    lifetime.requireActive();
    lifetime.endWhenRead(proxy.upstream.silence);
  } catch (error) {
    if (error instanceof ForeignResponse) proxy.connections.renew();
    const cause = lifetime.endReason(error);
    // An unread rest of the response would keep its connection.
    lifetime.abort(cause);
    throw cause;
  }
}

function challengeOf({ headers }: WholeResponse): string {
  return [headers['www-authenticate'] ?? []].flat().join(', ');
}

/**
 * What was answered 401 had no effect, so a request with a credential of a person is sent again, once, with another token of it. Its `headers`
 * have that token then.
 */
export function sendWithCredential(
  { send }: Pick<Proxy, 'send'>,
  request: OutboundRequest & { renewal: Renewal | undefined },
  options: ExchangeOptions,
  lifetime: Lifetime,
): Promise<UpstreamResponse> {
  const { renewal } = request;
  if (!renewal) return send(request, options, lifetime);
  return sendRenewably(send, { request, renewal }, options, lifetime);
}

async function sendRenewably(
  send: Proxy['send'],
  { request, renewal }: { request: OutboundRequest; renewal: Renewal },
  options: ExchangeOptions,
  lifetime: Lifetime,
): Promise<UpstreamResponse> {
  const { body } = request;
  const response = await send(request, options, lifetime);
  if (response.status !== 401) return response;
  lifetime.abortExchanges(new Error('the upstream answered 401'));
  const newer = await renewal.renew();
  lifetime.requireActive();
  request.headers = { ...request.headers, ...newer };
  request.body = body;
  return send(request, options, lifetime);
}
