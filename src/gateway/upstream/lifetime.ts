import type { ServerResponse } from 'node:http';
import type Koa from 'koa';
import { clientGone, HttpError, unavailable } from '../../http/errors.ts';
import { whenClosed } from '../../http/request-context.ts';
import { StoreUnavailable } from '../../store/store.ts';
import { isSameSelection } from '../../upstreams/tool-access.ts';
import { type ActiveRequest, type RequestKind, selectionChanged } from '../active-requests.ts';
import type { AuthenticatedCall } from '../call.ts';
import type { Exchange } from './exchange.ts';
import { badGateway, gatewayTimeout } from './gateway-errors.ts';
import type { Proxy } from './proxy.ts';
import type { ToolHolds } from './tool-holds.ts';

/** Ends when the client has read the response, on the timeout, when the client disconnects, and when revalidation fails or the process stops. */
export class Lifetime {
  readonly #res: ServerResponse;
  #timer: NodeJS.Timeout;
  #release: () => void;
  #untrack: (() => void) | undefined;
  #exchanges: Pick<Exchange, 'abort'>[] = [];
  #isResponseComplete = false;
  #isEnded = false;
  #aborted: { reason: unknown } | undefined;

  /** `release` is called when the request has ended. */
  constructor(ctx: Koa.Context, timeout: number, release: () => void) {
    this.#res = ctx.res;
    this.#release = release;
    this.#timer = this.#startTimer(timeout);
    const endWithClient = () => {
      if (!this.#isEnded) this.abort(clientGone());
    };
    whenClosed(ctx, endWithClient);
    if (this.#res.destroyed) endWithClient();
  }

  /** Calls `untrack` when the request has ended. */
  track(untrack: () => void): void {
    if (this.#isEnded) untrack();
    else this.#untrack = untrack;
  }

  /** Aborts the exchange too, beside those before it. */
  onAbort(exchange: Pick<Exchange, 'abort'>): void {
    // An array that grows has room for sixteen more, and nearly all calls have one.
    if (this.#exchanges.length === 0) this.#exchanges = [exchange];
    else this.#exchanges.push(exchange);
    if (this.#aborted) exchange.abort(this.#aborted.reason);
  }

  abort(reason: unknown): void {
    if (this.#isEnded) return;
    this.#aborted = { reason };
    this.#end();
    this.abortExchanges(reason);
    if (this.#isResponseComplete) this.#res.destroy();
  }

  /** Ends what was sent so far: a server may never end a response that nobody reads. The request goes on. */
  abortExchanges(reason: unknown): void {
    const ended = this.#exchanges;
    this.#exchanges = [];
    for (const exchange of ended) exchange.abort(reason);
  }

  /** Call it when the response is complete. A client that does not read it keeps its slot, for so many seconds at most. */
  endWhenRead(seconds: number): void {
    if (this.#isEnded) return;
    if (this.#res.writableEnded && this.#res.writableLength === 0) return this.#end();
    this.#isResponseComplete = true;
    this.restartTimer(seconds);
    this.#res.once('finish', () => this.#end());
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#untrack?.();
    this.#release();
  }

  requireActive(): void {
    if (this.#aborted) throw this.#aborted.reason;
  }

  /** Why a request ended early: the reason of the abort, an unavailable store, or a fault of the upstream. */
  endReason(error: unknown): unknown {
    if (this.#aborted) return this.#aborted.reason;
    if (error instanceof StoreUnavailable) return unavailable(error);
    return error instanceof HttpError ? error : badGateway(error);
  }

  /** Aborts with 504 after so many seconds without `refreshTimer`. */
  restartTimer(seconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = this.#startTimer(seconds);
  }

  refreshTimer(): void {
    this.#timer.refresh();
  }

  #startTimer(seconds: number): NodeJS.Timeout {
    return setTimeout(() => this.abort(gatewayTimeout(seconds)), seconds * 1000);
  }
}

export const TOOLS_CHANGED = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' };

/** From now on, the call ends when its caller's rights end. */
export function startLifetime(
  { activeRequests, upstream, holds }: Proxy,
  call: AuthenticatedCall,
  kind: RequestKind,
): Lifetime {
  const lifetime = new Lifetime(call.ctx, upstream.timeout, () => {
    call.slot.release();
    call.hold.release();
  });
  lifetime.track(activeRequests.start(new TrackedCall(call, lifetime, holds, kind)));
  return lifetime;
}

class TrackedCall implements ActiveRequest {
  readonly kind: RequestKind;
  readonly #call: AuthenticatedCall;
  readonly #lifetime: Lifetime;
  readonly #holds: ToolHolds;
  /** The filter of a stream knows what the caller might use when it began. */
  readonly #held: string;

  constructor(call: AuthenticatedCall, lifetime: Lifetime, holds: ToolHolds, kind: RequestKind) {
    this.kind = kind;
    this.#call = call;
    this.#lifetime = lifetime;
    this.#holds = holds;
    this.#held = holds.state();
  }

  dependsOn(id: string): boolean {
    const { accountId, connector, grantId, tokenId } = this.#call.caller;
    return id === accountId || id === connector || id === grantId || id === tokenId;
  }

  async revalidate(): Promise<void> {
    const access = await this.#call.revalidate();
    if (this.kind !== 'listening') return;
    const isSame = isSameSelection(access.caller, this.#call.caller);
    if (!isSame || this.#holds.state() !== this.#held) throw selectionChanged(TOOLS_CHANGED);
  }

  onRevoked(reason: unknown): void {
    this.#lifetime.abort(reason);
  }
}
