// Writes the table of identity providers into config/identity-providers.md (npm run providers).
import { readFile, writeFile } from 'node:fs/promises';
import { RECORDED_PROVIDERS } from './providers/index.ts';
import { DOCUMENT, withTable } from './table.ts';

await writeFile(DOCUMENT, await withTable(await readFile(DOCUMENT, 'utf8'), RECORDED_PROVIDERS));
console.log(
  `config/identity-providers.md has the table of ${RECORDED_PROVIDERS.length} providers.`,
);
