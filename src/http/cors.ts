import type Koa from 'koa';

/** Request headers of MCP clients. */
export const ALLOWED_HEADERS =
  'Authorization, DPoP, Content-Type, Accept, MCP-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID';
/** Response headers that MCP clients read. */
export const EXPOSED_HEADERS =
  'WWW-Authenticate, DPoP-Nonce, Retry-After, Mcp-Session-Id, MCP-Protocol-Version';

/** Allows every origin, without credentials (Fetch standard section 3.3), and responds to preflight requests. */
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
