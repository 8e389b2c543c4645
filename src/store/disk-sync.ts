import { closeSync, fdatasync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const datasync = promisify(fdatasync);

export type DiskSync = {
  /** Resolves when everything that was written to the file before the call is on disk. */
  sync(): Promise<void>;
  /** Nothing may be written any more. */
  close(): Promise<void>;
};

/**
 * Waits for the disk outside of the event loop. Callers that wait at the same time share one wait. After a failed sync, the system may report
 * unwritten pages as written, so `checkpoint` must bring everything to disk.
 */
export function diskSync(file: string, checkpoint: () => void): DiskSync {
  // Opened at the start: Linux reports an error of the disk once to each who has the file open when it happens.
  const descriptor = openSync(file, 'r+');
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  let hasFailed = false;

  const run = async () => {
    // What is written from now on may not be part of it.
    next = undefined;
    if (!hasFailed)
      try {
        await datasync(descriptor);
        return;
      } catch {
        hasFailed = true;
      }
    checkpoint();
    hasFailed = false;
  };
  return {
    sync() {
      if (!next) running = next = running.then(run, run);
      return next;
    },
    async close() {
      await running.catch(() => undefined);
      closeSync(descriptor);
    },
  };
}
