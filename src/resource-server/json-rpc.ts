// Refusals in the form MCP clients read: a JSON-RPC error (JSON-RPC 2.0 section 5.1) with the HTTP status, and the OAuth code beside it.
import type Koa from 'koa';
import { type HttpError, respondWithJson } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';

/** -32000 to -32099 are the server's own. */
const REFUSED = -32_000;
const CODES: Readonly<Record<string, number>> = {
  parse_error: -32_700,
  invalid_message: -32_600,
  header_mismatch: -32_020,
};

export function respondWithJsonRpc(ctx: Koa.Context, error: HttpError): void {
  respondWithJson(ctx, error);
  if (!/^(\/connect\/[^/]+)?\/mcp$/.test(ctx.path)) return;
  const { id = null, error: upstreamError } = requestContext(ctx).jsonRpc ?? {};
  ctx.body = {
    jsonrpc: '2.0',
    id,
    error: upstreamError ?? {
      code: CODES[error.code] ?? REFUSED,
      message: error.message,
      data: { error: error.code },
    },
  };
}
