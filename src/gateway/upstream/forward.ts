// Sends a call to the upstream, and forwards the response or stream while the call may last.
import type { IncomingHttpHeaders } from 'node:http';
import type Koa from 'koa';
import { asHttpError, type HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import { RepeatRequest } from '../active-requests.ts';
import type { AuthenticatedCall } from '../call.ts';
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
import type { ExchangeOptions, StreamControl, UpstreamResponse } from './exchange.ts';
import type { FilterMessage } from './filter.ts';
import { nextTurn } from '../event-loop.ts';
import type { Lifetime } from './lifetime.ts';
import { ForeignResponse, type RpcMessage } from './messages.ts';
import type { Proxy } from './proxy.ts';
import { maskBytes, maskText } from './quoting.ts';
import { forwardResponse } from './response.ts';
import type { OutboundRequest } from './send.ts';
import { type EventStreamOptions, openStream } from './stream.ts';

type Renewable = OutboundRequest & {
  /** The credential of the person in the last request. */
  token?: () => string;
  secrets: () => Readonly<Record<string, string>>;
  /** With a credential of the person: after 401, returns the header of a newer token, with which the request is repeated once. Rejects with an InBandError if there is none. */
  renew?: () => Promise<Record<string, string>>;
  /** The error after a second 401. */
  refused?: () => InBandError;
  /** After 403 with this challenge. Rejects with an InBandError if the person can give more. */
  forbidden?: (challenge: string) => Promise<void>;
};

type Forwarded = Renewable & {
  /** Without the client's notifications and responses. */
  requests: RequestOutline[];
  requestIds: readonly MessageId[];
  filter: FilterMessage;
  /** To messages of the batch that are not forwarded. */
  localResponses: readonly RpcMessage[];
  onAnswer: (message: RpcMessage) => void;
  onSuspended: () => void;
  bindSession: (id: string) => string;
  bindEvent: (id: string) => string;
};

/** Resolves when the response is complete or its stream has begun. Throws HttpError. */
export async function forward(
  proxy: Proxy,
  call: AuthenticatedCall,
  lifetime: Lifetime,
  request: Forwarded,
): Promise<void> {
  try {
    const turnToWrite = nextTurn(request.hold.bytes);
    if (turnToWrite) await turnToWrite;
    lifetime.requireActive();
    const options = {
      maxBytes: proxy.upstream.maxAnswerBytes,
      hold: holdResponse(request.hold),
      openStream: (headers: IncomingHttpHeaders, control: StreamControl) =>
        openStream(call.ctx, headers, control, streamOptions(call.ctx, proxy, lifetime, request)),
    };
    const response = await sendWithCredential(proxy, request, options, lifetime);
    if (response.isStream) return;
    if (request.token) maskBytes(response.body, request.token());
    if (response.status === 401 && request.refused) throw request.refused();
    if (response.status === 403) await request.forbidden?.(challengeOf(response));
    const forwarding = forwardResponse(call, response, request, lifetime);
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

function challengeOf({ headers }: UpstreamResponse): string {
  return [headers['www-authenticate'] ?? []].flat().join(', ');
}

/** A request that was answered 401 had no effect, so it is repeated, once. */
export function sendWithCredential(
  { send }: Pick<Proxy, 'send'>,
  request: Renewable,
  options: ExchangeOptions,
  lifetime: Lifetime,
): Promise<UpstreamResponse> {
  const { renew } = request;
  if (!renew) return send(request, options, lifetime);
  return sendRenewably(send, { request, renew }, options, lifetime);
}

async function sendRenewably(
  send: Proxy['send'],
  { request, renew }: { request: Renewable; renew: NonNullable<Renewable['renew']> },
  options: ExchangeOptions,
  lifetime: Lifetime,
): Promise<UpstreamResponse> {
  const { body } = request;
  const response = await send(request, options, lifetime);
  if (response.status !== 401) return response;
  lifetime.abortExchanges(new Error('the upstream answered 401'));
  const newer = await renew();
  lifetime.requireActive();
  const earlier = request.secrets;
  request.secrets = () => ({ ...earlier(), ...newer });
  return send({ ...request, headers: { ...request.headers, ...newer }, body }, options, lifetime);
}

/** How long an ended stream waits for the client to read its last events. */
const FLUSH_MS = 1000;

function streamOptions(
  ctx: Koa.Context,
  { upstream, services, heartbeat, onSkipped }: Proxy,
  lifetime: Lifetime,
  request: Forwarded,
): EventStreamOptions {
  const { method, requests, requestIds, hold, filter, bindSession, bindEvent, token } = request;
  lifetime.restartTimer(upstream.silence);
  return {
    maxEventLength: upstream.maxAnswerBytes,
    isListening: method === 'GET' || requests.every(isSubscription),
    heartbeat,
    hold: holdResponse(hold),
    filter,
    mask: (data) => (token ? maskText(data, token()) : data),
    onAnswer: request.onAnswer,
    onSuspended: request.onSuspended,
    bindSession,
    bindEvent,
    localResponses: request.localResponses,
    requestIds: method === 'GET' ? undefined : requestIds,
    onSkipped,
    requireActive: () => lifetime.requireActive(),
    onData: () => lifetime.refreshTimer(),
    onEnd: () => lifetime.endWhenRead(upstream.silence),
    onBreak(error) {
      const reason = lifetime.endReason(error);
      lifetime.abort(reason);
      setTimeout(() => ctx.res.destroy(), FLUSH_MS).unref();
      const fault = asHttpError(reason);
      if (fault.cause instanceof RepeatRequest)
        return {
          responseTo: endSubscriptions(requests, fault),
          retry: fault.cause.retry,
          // In a subscription, the final response leads to a new list.
          notification: method === 'GET' ? fault.cause.notification : undefined,
        };
      if (fault.status >= 500) {
        // The status is already sent, so only the log and the metrics show the fault.
        requestContext(ctx).failure = { code: fault.code };
        services.logger.warn({ err: fault.cause ?? fault }, 'a stream of the MCP server failed');
      }
      const responseTo = (id: MessageId) => {
        const request = requests.find((one) => one.id === id);
        if (request && fault instanceof InBandError) return inBandResponse(request, fault);
        return errorResponse(id, { code: SERVER_ERROR, message: fault.message });
      };
      return { responseTo, retry: undefined, notification: undefined };
    },
  };
}

/** Ends subscriptions without an error, so that clients open new ones. */
function endSubscriptions(requests: readonly RequestOutline[], { message }: HttpError) {
  const subscriptions = new Set(requests.filter(isSubscription).map(({ id }) => id));
  return (id: MessageId) =>
    subscriptions.has(id)
      ? subscriptionEnded(id)
      : errorResponse(id, { code: SERVER_ERROR, message });
}

/** Counts bytes of the response beside the text of the request, which is held until the response ends. */
function holdResponse(hold: Hold): ExchangeOptions['hold'] {
  let sent: number | undefined;
  return (bytes) => hold.set((sent ??= hold.bytes) + bytes);
}
