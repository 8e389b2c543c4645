import { type FileHandle, open } from 'node:fs/promises';

export type DiskSync = {
  /** Resolves when everything that was written to the file before the call is on disk. */
  onDisk(): Promise<void>;
  /** Nothing may be written any more. */
  close(): Promise<void>;
};

/**
 * Waits for the disk outside of the event loop. Callers that wait at the same time share one wait. After a failure, the system takes for written
 * what is not, so `rescue` has to bring everything to disk in another way.
 */
export function diskSync(file: string, rescue: () => void): DiskSync {
  let handle: FileHandle | undefined;
  let running: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  let hasFailed = false;

  const sync = async () => {
    // What is written from now on may not be part of it.
    next = undefined;
    if (!hasFailed)
      try {
        handle ??= await open(file, 'r+');
        await handle.datasync();
        return;
      } catch {
        hasFailed = true;
      }
    rescue();
    hasFailed = false;
  };
  return {
    onDisk() {
      if (!next) running = next = running.then(sync, sync);
      return next;
    },
    async close() {
      await running.catch(() => undefined);
      await handle?.close();
    },
  };
}
