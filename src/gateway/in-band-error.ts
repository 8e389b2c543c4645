// Refusals of authenticated requests in the form of an ordinary response: HTTP 200 with an error for each JSON-RPC request. Clients end the
// session on HTTP 429, and repeat the call on 502, and assistants read tool errors.
import type Koa from 'koa';
import { HttpError, respondWithJson } from '../http/errors.ts';
import { callOf } from './call.ts';
import { errorResponse, SERVER_ERROR, toolErrorResponse } from './json-rpc.ts';
import { readOutline } from './request-outline.ts';

/** Sent as it is, with the status, to requests without a JSON-RPC request: streams (GET), and notifications. */
export class InBandError extends HttpError {
  override readonly name = 'InBandError';
  /** Seconds. */
  readonly retryAfter: number | undefined;

  constructor(
    status: number,
    code: string,
    message: string,
    { retryAfter, cause }: { retryAfter?: number | undefined; cause?: unknown } = {},
  ) {
    super(status, code, message, {
      cause,
      ...(retryAfter === undefined ? {} : { headers: { 'Retry-After': String(retryAfter) } }),
      logLevel: cause === undefined ? 'info' : 'error',
    });
    this.retryAfter = retryAfter;
  }
}

/** A limit on the caller's requests. `message` says what to do beside waiting. */
export function limitReached(message: string, retryAfter: number, cause?: unknown): InBandError {
  const text = `${message}; try again in ${retryAfter} s`;
  return new InBandError(503, 'limit_reached', text, { retryAfter, cause });
}

export function responseTooLarge(maxBytes: number): InBandError {
  return responseTooComplex(`is larger than ${maxBytes} bytes`);
}

/** Not 502, because agents would repeat the call. `what` is a predicate whose subject is the response. */
export function responseTooComplex(what: string): InBandError {
  const message = `the response ${what}, the limit of this server: ask for less, for example one page or a filter`;
  const cause = new Error(`the response of the upstream ${what}`);
  return new InBandError(502, 'response_too_large', message, { cause });
}

/** The response to one request. */
export function inBandResponse(
  { id, method }: { id: unknown; method: string },
  error: InBandError,
): Record<string, unknown> {
  const { code, message, retryAfter } = error;
  if (method === 'tools/call') return toolErrorResponse(id, message);
  const data = { error: code, ...(retryAfter === undefined ? {} : { retryAfter }) };
  return errorResponse(id, { code: SERVER_ERROR, message, data });
}

/** Reads the rest of a request whose body was not read, to know its ids. */
export async function respondInBand(
  ctx: Koa.Context,
  error: InBandError,
  maxBytes: number,
): Promise<void> {
  respondWithJson(ctx, error);
  const call = callOf(ctx);
  const outline = call?.outline ?? (await readOutline(ctx, maxBytes));
  // A call that a limit refused was not made.
  const limited = new Map(call?.limited?.map((response) => [response['id'], response]));
  const responses = outline.requests.map(
    (request) => limited.get(request.id) ?? inBandResponse(request, error),
  );
  if (responses.length === 0) {
    ctx.body = errorResponse(undefined, { code: SERVER_ERROR, message: error.message });
    return;
  }
  ctx.status = 200;
  ctx.body = outline.isBatch ? responses : responses[0];
}
