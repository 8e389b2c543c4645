// Reads `traceparent` (W3C Trace Context section 3.2), which anybody may send: good for a link, and never obeyed.
import type { SpanLink } from './spans.ts';

const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** No link when there is none, or none that is well formed. */
export function linksTo(traceparent: unknown): SpanLink[] {
  if (typeof traceparent !== 'string' || traceparent.length > 200) return [];
  const [, version, traceId, spanId, more] = TRACEPARENT.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined) return [];
  // Only later versions may say more than this one.
  return version === '00' && more !== undefined ? [] : [{ traceId, spanId }];
}
