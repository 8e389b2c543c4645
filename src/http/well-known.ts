import type Koa from 'koa';
import { notFound } from './errors.ts';

const ROOT = '/.well-known/';
const WELL_KNOWN = /[/\\]\.well-known([/\\]|$)/i;

/** Whether the path has a segment `.well-known` (RFC 8615), also one that is encoded, in capitals or below another path. */
export function isWellKnown(path: string): boolean {
  if (!path.includes('%')) return WELL_KNOWN.test(path);
  const ascii = path.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return WELL_KNOWN.test(ascii);
}

/** Rejects well-known paths below other paths with 404. Clients probe them, and routes with parameters would match. */
export function refuseNestedWellKnown(ctx: Koa.Context): void {
  if (isWellKnown(ctx.path) && !ctx.path.startsWith(ROOT)) throw notFound();
}
