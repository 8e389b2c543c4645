// A program that replaces the root secret of a store.
import { openStore } from '../../src/store/open.ts';

const [file = '', dataDir = '', secret = '', previousSecret = ''] = process.argv.slice(2);
// The pass itself keeps no process alive.
const alive = setInterval(() => undefined, 1000);
const store = await openStore({ kind: 'sqlite', file }, { secret, previousSecret, dataDir });
await store.rewrap.run({ waitMs: 60_000 });
await store.close();
clearInterval(alive);
