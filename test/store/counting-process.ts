// Increments a counter in a SQLite store. Arguments: data directory, file, secret, number of increments.
import { openStore } from '../../src/store/open.ts';

const [dataDir = '', file = '', secret = '', times = ''] = process.argv.slice(2);
const store = await openStore({ kind: 'sqlite', file }, { secret, dataDir });
for (let i = 0; i < Number(times); i++) {
  const found = await store.update<number>('count:shared', (n = 0) => ({ value: n + 1, ttl: 600 }));
  console.log(found?.value);
}
await store.close();
