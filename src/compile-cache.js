// Loaded first, by gatehouse.js or with `node --import`. Reuses compiled code at the next start, which saves time and memory. Plain JavaScript, so that it needs no
// compiling itself.
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Only those who can change the code can write here. Nothing is cached if the directory is read-only.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/gatehouse'));
