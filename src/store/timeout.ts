import { StoreFull, StoreUnavailable } from './store.ts';

/** For one operation of the store, with all its retries. A request runs several; together they must fail within 1.5 s when the store stalls. */
export const TIMEOUT_MS = 1200;
/** For one command to Redis, so that an operation can retry it once. */
export const REDIS_COMMAND_TIMEOUT_MS = 800;
/** Applies after a command timed out, until a command succeeds. */
const TIMEOUT_WHEN_STALLED_MS = 200;

/** Rejects with StoreUnavailable if `command` fails or times out. A command that timed out may still be executed. */
export type WithTimeout = <R>(command: Promise<R>, milliseconds?: number) => Promise<R>;

/** One for all commands to a database. */
export function createTimeout(): WithTimeout {
  let isStalled = false;
  const answered = () => void (isStalled = false);

  return async function withTimeout<R>(command: Promise<R>, milliseconds = TIMEOUT_MS): Promise<R> {
    const began = performance.now();
    const { promise: timedOut, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      // After a busy moment, a reply may have arrived that is not read yet. Immediates run after it is read.
      () => setImmediate(() => reject(new Error('the command timed out'))),
      isStalled ? Math.min(milliseconds, TIMEOUT_WHEN_STALLED_MS) : milliseconds,
    );
    command.then(answered, () => undefined);
    try {
      return await Promise.race([command, timedOut]);
    } catch (cause) {
      isStalled ||= performance.now() - began >= TIMEOUT_WHEN_STALLED_MS;
      throw isOutOfMemory(cause) ? new StoreFull(cause) : new StoreUnavailable(cause);
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Only Redis reports it. When a disk is full, SQLite cannot delete either. */
function isOutOfMemory(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith('OOM ');
}
