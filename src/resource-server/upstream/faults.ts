// What a caller is told when the upstream is dead, slow or talks nonsense: that, and nothing of what it said; the cause is for the log.
import { HttpError, unavailable } from '../../http/errors.ts';
import { StoreUnavailable } from '../../store/store.ts';

export function badGateway(cause: unknown): HttpError {
  const message =
    'the MCP server behind this address did not answer as it should; try again in a moment';
  return new HttpError(502, 'bad_gateway', message, { cause });
}

export function tooSlow(seconds: number): HttpError {
  const message = 'the MCP server behind this address took too long; try again in a moment';
  const cause = new Error(`the upstream was silent for ${seconds} s`);
  return new HttpError(504, 'gateway_timeout', message, { cause });
}

/** Nobody is there to read it. */
export function clientGone(): HttpError {
  return new HttpError(400, 'client_gone', 'the client went away');
}

/** Why a request ended early: what aborted it, the store, or else the upstream. */
export function faultOf(signal: AbortSignal, error: unknown): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof StoreUnavailable) return unavailable(error);
  return error instanceof HttpError ? error : badGateway(error);
}
