// Opens new SQLite files at the same moment as other threads, which SQLite treats like processes. Ends with an error if one was refused.
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { openDatabase } from '../../src/store/sqlite-database.ts';

type Work = { folder: string; counters: SharedArrayBuffer; threads: number; files: number };

const { folder, counters, threads, files }: Work = workerData;
const arrived = new Int32Array(counters);

/** Returns when all threads have come here `times` times. A thread that slept would come too late. */
function meet(counter: 0 | 1, times: number): void {
  Atomics.add(arrived, counter, 1);
  while (Atomics.load(arrived, counter) < times * threads);
}

const refusals: string[] = [];
for (let file = 1; file <= files; file += 1) {
  meet(0, file);
  try {
    const db = openDatabase(join(folder, `${file}.sqlite`));
    meet(1, file);
    db.close();
  } catch (error) {
    refusals.push(String(error));
    meet(1, file);
  }
}
if (refusals.length > 0) throw new Error(refusals.join('\n'));
