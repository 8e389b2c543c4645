// Cross-origin access for clients that run in a browser: any origin, never with credentials (Fetch, section 3.2).
import type Koa from 'koa';

/** Headers that MCP clients send. */
export const ALLOWED_HEADERS =
  'Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID';
/** Headers that MCP clients read. */
export const EXPOSED_HEADERS =
  'WWW-Authenticate, DPoP-Nonce, Retry-After, Mcp-Session-Id, MCP-Protocol-Version';

/** Answers preflights and marks the rest as readable from anywhere. */
export function allowAnyOrigin(methods: string): Koa.Middleware {
  return async function cors(ctx, next) {
    ctx.set('Access-Control-Allow-Origin', '*');
    ctx.set('Access-Control-Expose-Headers', EXPOSED_HEADERS);
    if (ctx.method !== 'OPTIONS') return next();
    ctx.set('Access-Control-Allow-Methods', methods);
    ctx.set('Access-Control-Allow-Headers', ALLOWED_HEADERS);
    ctx.set('Access-Control-Max-Age', '3600');
    ctx.status = 204;
  };
}
