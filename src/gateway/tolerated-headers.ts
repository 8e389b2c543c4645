// Headers of MCP clients that HTTP allows, but that servers of the SDKs refuse.
import type { IncomingHttpHeaders } from 'node:http';

const BOTH_TYPES = 'application/json, text/event-stream';
const ANY_TYPE = /(^|,)\s*(\*|application)\/\*\s*(,|;|$)/;

/** Names both types of Streamable HTTP where the client accepts any (RFC 9110 section 12.5.1), and treats an empty id as none. */
export function replaceToleratedHeaders(headers: IncomingHttpHeaders): void {
  const { accept } = headers;
  if (!accept || ANY_TYPE.test(accept)) headers.accept = BOTH_TYPES;
  for (const name of ['mcp-session-id', 'last-event-id'])
    if (headers[name] === '') delete headers[name];
}
