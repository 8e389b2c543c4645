// Writes a response that arrives piece by piece.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { isObject } from '../../json-values.ts';
import { escapedJson, type Terminal } from './terminal.ts';

export async function writeTexts(
  texts: AsyncIterable<string>,
  output: Terminal['output'],
): Promise<void> {
  await pipeline(Readable.from(texts), output, { end: false }).catch((error: unknown) => {
    // The reader has seen enough.
    if (!isObject(error) || error['code'] !== 'EPIPE') throw error;
  });
}

/** Texts of JSON without characters that could move the cursor. */
export async function* escapedTexts(texts: AsyncIterable<string>): AsyncGenerator<string> {
  for await (const text of texts) yield escapedJson(text);
}
