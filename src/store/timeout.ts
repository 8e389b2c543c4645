// How long the database may take: a request needs several commands, and is answered within 1.5 s also when the database stalls meanwhile.
import { StoreFull, StoreUnavailable } from './store.ts';

const TIMEOUT_MS = 1200;
// After a command that was late, until one is answered: whoever waited for that one must not wait as long again.
const TIMEOUT_WHEN_STALLED_MS = 200;

/**
 * `command` was sent already: when it is late its answer is not waited for, and it may still be carried out. Throws `StoreUnavailable`,
 * whatever went wrong.
 */
export type WithTimeout = <R>(command: Promise<R>, milliseconds?: number) => Promise<R>;

/** For all commands to one database. */
export function createTimeout(): WithTimeout {
  let isLate = false;
  const answered = () => void (isLate = false);

  return async function withTimeout<R>(command: Promise<R>, milliseconds = TIMEOUT_MS): Promise<R> {
    const began = performance.now();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(new Error('no answer in time')),
      isLate ? Math.min(milliseconds, TIMEOUT_WHEN_STALLED_MS) : milliseconds,
    );
    command.then(answered, () => undefined);
    try {
      return await Promise.race([command, late]);
    } catch (cause) {
      isLate ||= performance.now() - began >= TIMEOUT_WHEN_STALLED_MS;
      throw isFull(cause) ? new StoreFull(cause) : new StoreUnavailable(cause);
    } finally {
      clearTimeout(timer);
    }
  };
}

/** Only Redis can be: where a disk is full, nothing can be deleted either. */
function isFull(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith('OOM ');
}
