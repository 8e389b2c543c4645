// Writes that a response must wait for, but no later step of its request. Several of them share one round trip or one transaction.
import type Koa from 'koa';
import { Provider } from 'oidc-provider';

const pending = new WeakMap<object, Promise<unknown>[]>();

/** In a request of the engine, resolves at once and leaves the write to `finishWrites`. Elsewhere, resolves when it is done. */
export async function finishBeforeResponse(write: Promise<unknown> | void): Promise<void> {
  const ctx = Provider.ctx;
  const writes = ctx && pending.get(ctx);
  if (!writes || !write) return void (await write);
  write.catch(() => undefined);
  writes.push(write);
}

/** Runs the engine, then waits for the writes of the request. Rejects if one of them failed, without a redirect that could carry a code. */
export function finishWrites(engine: Koa.Middleware): Koa.Middleware {
  return async function writesFinished(ctx, next) {
    const writes: Promise<unknown>[] = [];
    pending.set(ctx, writes);
    await engine(ctx, next);
    try {
      await Promise.all(writes);
    } catch (error) {
      ctx.remove('Location');
      throw error;
    }
  };
}
