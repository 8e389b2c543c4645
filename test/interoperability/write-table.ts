// Writes the results of the last run into README.md (npm run interoperability).
import { readFile, writeFile } from 'node:fs/promises';
import { DOCUMENT, readResults, withTable } from './table.ts';

const results = await readResults();
await writeFile(DOCUMENT, await withTable(await readFile(DOCUMENT, 'utf8'), results));
console.log(`test/interoperability/README.md has the table of ${results.length} clients.`);
