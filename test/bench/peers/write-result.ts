// Replaces the result in README.md.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const DOCUMENT = join(import.meta.dirname, 'README.md');
const RESULT = /(<!-- prettier-ignore-start -->\n).*(\n<!-- prettier-ignore-end -->)/s;

export async function writeResult(result: string): Promise<void> {
  const text = await readFile(DOCUMENT, 'utf8');
  if (!RESULT.test(text)) throw new Error(`${DOCUMENT} has no place for the result`);
  await writeFile(
    DOCUMENT,
    text.replace(RESULT, (_whole, start, end) => `${start}\n${result}\n${end}`),
  );
}
