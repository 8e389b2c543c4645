// Requests to a paused connect link, or with a minted token to a paused MCP server: nothing reaches the MCP server, and nobody has to connect
// again.
import { isPaused } from '../links/connector.ts';
import type { Settings } from '../settings/settings.ts';
import type { Access, AuthenticatedCall } from './call.ts';
import { InBandError } from './in-band-error.ts';

/** An assistant reads it, and tells the person. */
const CONNECTOR_PAUSED =
  'this connect link is paused, so nothing was done: an administrator paused it and can resume it. Nobody has to connect again; try again later';
const SERVER_PAUSED =
  'this MCP server is paused, so nothing was done: an administrator paused it and can resume it. Try again later';

/** The error for a request while its connect link or MCP server is paused. */
export function pauseOf(
  { connector, mintedToken }: Access,
  settings: Pick<Settings, 'upstreams'>,
): InBandError | undefined {
  if (!isPaused(connector ?? mintedToken, settings)) return undefined;
  return new InBandError(503, 'connector_paused', connector ? CONNECTOR_PAUSED : SERVER_PAUSED);
}

/** Lists the tools that are known without asking the MCP server. Throws the pause for all other requests. */
export function servePaused(
  { ctx, outline, handler, caller }: AuthenticatedCall,
  pause: InBandError,
) {
  const [request, ...others] = outline?.requests ?? [];
  if (request?.method !== 'tools/list' || others.length > 0) throw pause;
  const result = { resultType: 'complete', tools: handler.knownTools(caller) };
  const response = { jsonrpc: '2.0', id: request.id, result };
  ctx.set('Cache-Control', 'no-store');
  ctx.body = outline?.isBatch ? [response] : response;
}
