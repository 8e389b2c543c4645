import type { ServerResponse } from 'node:http';
import { clientGone, HttpError, unavailable } from '../../http/errors.ts';
import { StoreUnavailable } from '../../store/store.ts';
import { isSameSelection } from '../../upstreams/tool-access.ts';
import { type RequestKind, selectionChanged } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import type { Exchange } from './exchange.ts';
import { badGateway, gatewayTimeout } from './gateway-errors.ts';
import type { Proxy } from './proxy.ts';

/** Ends when the client has read the response, on the timeout, when the client disconnects, and when revalidation fails or the process stops. */
export class Lifetime {
  readonly #res: ServerResponse;
  #timer: NodeJS.Timeout;
  #release: () => void;
  #untrack: (() => void) | undefined;
  readonly #exchanges: Pick<Exchange, 'abort'>[] = [];
  #isResponseComplete = false;
  #isEnded = false;
  #aborted: { reason: unknown } | undefined;

  /** `release` is called when the request has ended. */
  constructor(res: ServerResponse, timeout: number, release: () => void) {
    this.#res = res;
    this.#release = release;
    this.#timer = this.#startTimer(timeout);
    res.on('close', this.#onClose);
    if (res.destroyed) this.#onClose();
  }

  /** Calls `untrack` when the request has ended. */
  track(untrack: () => void): void {
    if (this.#isEnded) untrack();
    else this.#untrack = untrack;
  }

  /** Aborts the exchange too, beside those before it. */
  onAbort(exchange: Pick<Exchange, 'abort'>): void {
    this.#exchanges.push(exchange);
    if (this.#aborted) exchange.abort(this.#aborted.reason);
  }

  readonly onRevoked = (reason: unknown): void => this.abort(reason);

  readonly #onClose = (): void => this.abort(clientGone());

  abort(reason: unknown): void {
    if (this.#isEnded) return;
    this.#aborted = { reason };
    this.#end();
    this.abortExchanges(reason);
    if (this.#isResponseComplete) this.#res.destroy();
  }

  /** Ends what was sent so far: a server may never end a response that nobody reads. The request goes on. */
  abortExchanges(reason: unknown): void {
    for (const exchange of this.#exchanges.splice(0)) exchange.abort(reason);
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
    this.#res.off('close', this.#onClose);
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
  { ctx, caller, revalidate, slot, hold }: AuthenticatedCall,
  kind: RequestKind,
): Lifetime {
  const lifetime = new Lifetime(ctx.res, upstream.timeout, () => {
    slot.release();
    hold.release();
  });
  const { onRevoked } = lifetime;
  // Its filter knows what the caller might use when it began.
  const held = holds.state();
  const requireSame = async () => {
    const access = await revalidate();
    if (!isSameSelection(access.caller, caller) || holds.state() !== held)
      throw selectionChanged(TOOLS_CHANGED);
  };
  lifetime.track(
    activeRequests.start({
      ids: idsOf(caller),
      revalidate: kind === 'listening' ? requireSame : revalidate,
      kind,
      onRevoked,
    }),
  );
  return lifetime;
}

/** The records that revalidation reads. */
function idsOf({ accountId, connector, grantId, tokenId }: Caller): string[] {
  return [accountId, connector, grantId, tokenId].filter((id) => id !== undefined);
}
