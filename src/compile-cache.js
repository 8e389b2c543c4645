// Keeps code that was compiled for the next start, which takes less time and memory (node --import); plain JavaScript, so that no compiler is loaded for it.
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Beside the code: whoever may write there may change the code as well. Where nobody may, nothing is kept.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/gatehouse'));
