// Whether something shows that there was a store, before a start creates a new, empty one in its place.
import { statSync } from 'node:fs';
import { join } from 'node:path';

/** The first start generates them before it opens the store. */
const GENERATED_KEYS = ['secret', 'management.key'];
/** A first start that failed, or another process of the first start, generated younger keys. */
const FIRST_START_SECONDS = 600;

/** Says what shows it. Undefined if nothing does. */
export function earlierStore(
  { dataDir, storeId }: { dataDir: string; storeId?: string | undefined },
  now: number,
): string | undefined {
  if (storeId !== undefined) return 'storeId in the settings says that there is one';
  const oldest = now - FIRST_START_SECONDS;
  const key = GENERATED_KEYS.map((name) => join(dataDir, name)).find(
    (file) => modifiedAt(file) < oldest,
  );
  return key && `${key} is from an earlier start`;
}

/** Infinity if there is no such file. */
function modifiedAt(file: string): number {
  const found = statSync(file, { throwIfNoEntry: false });
  return found ? found.mtimeMs / 1000 : Infinity;
}
