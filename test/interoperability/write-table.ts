// `npm run interoperability`: writes into README.md what the last run of the tests proved.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readResults, withTable } from './table.ts';

const README = join(import.meta.dirname, '../../README.md');

const results = await readResults();
await writeFile(README, await withTable(await readFile(README, 'utf8'), results));
console.log(`README.md has the table of ${results.length} clients.`);
