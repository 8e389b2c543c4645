// Writes results into documents.
import { readFile, writeFile } from 'node:fs/promises';

/** Replaces the text block of `file` that follows the comment `<!-- name -->`. */
export async function writeBlock(file: string, name: string, result: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  const block = new RegExp(`(<!-- ${name} -->\n\n\`\`\`text\n).*?(\n\`\`\`\n)`, 's');
  if (!block.test(text)) throw new Error(`${file} has no block for the result of ${name}`);
  const put = (_whole: string, start: string, end: string) => `${start}${result}${end}`;
  await writeFile(file, text.replace(block, put));
}
