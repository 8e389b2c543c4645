import { whenOverdue } from '../overdue.ts';
import { StoreFull, StoreUnavailable } from './store.ts';

/** In milliseconds. */
export type StoreTimeouts = {
  /** One operation of the store, with all its retries. */
  operation: number;
  /** One command to Redis. Less than `operation`, so that it can be sent once more. */
  command: number;
  /** One operation after another one timed out, until one succeeds. */
  stalled: number;
  /** Opening the store. */
  open: number;
  /** A connection without a reply is replaced. A firewall may drop it silently, and TCP takes about 15 minutes to notice. */
  silence: number;
  /** The acknowledgement of a write by a replica. */
  replication: number;
};

/** A request runs several operations; together they must fail within 1.5 s when the store stalls. Only tests change these values. */
export const STORE_TIMEOUTS: StoreTimeouts = {
  operation: 1200,
  command: 800,
  stalled: 200,
  open: 5000,
  silence: 3000,
  replication: 300,
};

/** Rejects with StoreUnavailable if `command` fails or times out. A command that timed out may still be executed. */
export type WithTimeout = <R>(command: Promise<R>, milliseconds?: number) => Promise<R>;

/** One for all commands to a database. */
export function createTimeout({ operation, stalled } = STORE_TIMEOUTS): WithTimeout {
  let isStalled = false;

  return function withTimeout<R>(command: Promise<R>, milliseconds = operation): Promise<R> {
    const began = performance.now();
    return new Promise((resolve, reject) => {
      let isSettled = false;
      const fail = (cause: unknown) => {
        if (isSettled) return;
        isSettled = true;
        clearTimeout(timer);
        isStalled ||= performance.now() - began >= stalled;
        reject(isOutOfMemory(cause) ? new StoreFull(cause) : new StoreUnavailable(cause));
      };
      const timer = whenOverdue(
        () => fail(new Error('the command timed out')),
        isStalled ? Math.min(milliseconds, stalled) : milliseconds,
      );
      command.then((reply) => {
        isSettled = true;
        isStalled = false;
        clearTimeout(timer);
        resolve(reply);
      }, fail);
    });
  };
}

/** Only Redis reports it. When a disk is full, SQLite cannot delete either. */
function isOutOfMemory(cause: unknown): boolean {
  return cause instanceof Error && cause.message.startsWith('OOM ');
}
