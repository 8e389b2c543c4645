// Well-known addresses (RFC 8615): clients probe many forms of them, on every host and below every path.
import type Koa from 'koa';
import { notFound } from './errors.ts';

const ROOT = '/.well-known/';

/** True for every spelling: encoded, in capitals, below another path. */
export function isWellKnown(path: string): boolean {
  const ascii = path.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return /[/\\]\.well-known([/\\]|$)/i.test(ascii);
}

/** Routes of ours have parameters, and steps of ours ask who calls: neither is for an address that only the root of a host can have. */
export function refuseNestedWellKnown(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  if (isWellKnown(ctx.path) && !ctx.path.startsWith(ROOT)) throw notFound();
  return next();
}
