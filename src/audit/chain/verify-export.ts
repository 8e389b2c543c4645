// Verifies an export without a store (export.ts).
import { type FileHandle, open } from 'node:fs/promises';
import { decodeProtectedHeader, type JWK } from 'jose';
import { isObject, membersOf } from '../../json-values.ts';
import {
  type Checkpoint,
  type CheckpointList,
  checkpointSignatures,
  CHECKPOINT_ITEMS,
  readCheckpoint,
} from './checkpoint.ts';
import type { ExportHeader } from './export.ts';
import type { SealedItem } from './sealed-item.ts';
import { openVerifier, type Verification, type VerifiedItem } from './verifier.ts';

/** The file is not a whole export, so that nothing can be said about it. */
export class NotVerifiable extends Error {
  override name = 'NotVerifiable';
}

/** The export leaves out items on purpose. */
export class FilteredExport extends NotVerifiable {}

export type ExportVerification = {
  keys: readonly JWK[];
  kept?: Checkpoint | undefined;
  onProgress?: (checkpoints: number) => void;
};

/** Holds one checkpoint at a time: notes where each begins, and then goes back from the last one. */
export async function verifyExport(
  file: string,
  { keys, kept, onProgress }: ExportVerification,
): Promise<Verification> {
  const handle = await open(file);
  try {
    const { header, starts } = await findSections(handle);
    const { filters, since, until } = header;
    if (Object.keys(membersOf(filters)).length > 0)
      throw new FilteredExport('the export has filters: gaps in it mean nothing');
    const verifier = openVerifier({ isSigned: checkpointSignatures(keys), kept });
    const [first = 0, ...lists] = starts;
    const section = (index: number) => linesFrom(handle, lists[index] ?? first, lists[index + 1]);
    const newest = lists.length - 1;
    if (newest >= 0) requireKey(await listIn(section(newest)), keys);
    const covering = newest < 0 ? undefined : readCheckpoint((await listIn(section(newest))).jws);
    const covered = covering?.last.number;
    // What is left out by a time leaves gaps where no checkpoint is.
    const isWhole = until === undefined && (covering !== undefined || since === undefined);
    if (isWhole)
      await verifier.tail(after(itemsIn(section(newest)), covered), {
        newest: covering,
        first: covered === undefined ? undefined : covered + 1,
      });
    let newer: Checkpoint | undefined;
    for (let index = newest; index >= 0; index -= 1) {
      const list = await listIn(section(index));
      const end = index === newest ? covered : undefined;
      newer = await verifier.checkpoint(list, itemsIn(section(index), end), newer);
      onProgress?.(newest - index + 1);
    }
    const unlisted = await countOf(itemsIn(linesFrom(handle, first, lists[0])));
    if (newer && unlisted > (since === undefined ? 0 : MAX_CUT_ITEMS))
      verifier.removedBefore(newer);
    return verifier.result({ isCut: since !== undefined });
  } finally {
    await handle.close();
  }
}

/** Keys of another log would make every checkpoint look changed. */
function requireKey({ jws }: CheckpointList, keys: readonly JWK[]): void {
  const { kid } = decodeProtectedHeader(jws);
  if (!keys.some((key) => key.kid === kid))
    throw new NotVerifiable('the keys are not those of the export');
}

/** Items before the first list of an export that begins at a time: those of a checkpoint that is cut, or of two if clocks differ. */
const MAX_CUT_ITEMS = 2 * CHECKPOINT_ITEMS;

async function countOf(items: AsyncIterable<VerifiedItem>): Promise<number> {
  let count = 0;
  for await (const _item of items) count += 1;
  return count;
}

/** The items with a higher number; all of them without one. */
async function* after(
  items: AsyncIterable<VerifiedItem>,
  number = 0,
): AsyncGenerator<VerifiedItem> {
  for await (const item of items) if (item.number > number) yield item;
}

/** Without its end. */
export type Line = { start: number; text: string };

const CHUNK_BYTES = 256 * 1024;
const LINE_END = 0x0a;

export async function* linesFrom(
  handle: FileHandle,
  from: number,
  to = Infinity,
): AsyncGenerator<Line> {
  const buffer = Buffer.alloc(CHUNK_BYTES);
  let parts: Buffer[] = [];
  let [start, position] = [from, from];
  for (;;) {
    const length = Math.min(CHUNK_BYTES, to - position);
    const { bytesRead } = await handle.read(buffer, 0, length, position);
    const read = buffer.subarray(0, bytesRead);
    let begin = 0;
    for (let end = read.indexOf(LINE_END); end >= 0; end = read.indexOf(LINE_END, begin)) {
      const text = Buffer.concat([...parts, read.subarray(begin, end)]).toString();
      yield { start, text };
      parts = [];
      begin = end + 1;
      start = position + begin;
    }
    parts.push(Buffer.from(read.subarray(begin)));
    position += bytesRead;
    if (bytesRead === 0) break;
  }
  const text = Buffer.concat(parts).toString();
  if (text !== '') yield { start, text };
}

export const LIST_START = '{"list":';

/** Where the items begin, and then where each list begins. */
async function findSections(
  handle: FileHandle,
): Promise<{ header: ExportHeader['export']; starts: number[] }> {
  let header: ExportHeader['export'] | undefined;
  const starts: number[] = [];
  for await (const { start, text } of linesFrom(handle, 0)) {
    if (header === undefined) {
      header = readHeader(text);
      if (!header) throw new NotVerifiable('the file does not begin as an export does');
      starts.push(start + Buffer.byteLength(text) + 1);
    } else if (text.startsWith(LIST_START)) starts.push(start);
  }
  if (header === undefined) throw new NotVerifiable('the file is empty');
  return { header, starts };
}

/** Undefined if the first line is not that of an export. */
export function readHeader(text: string): ExportHeader['export'] | undefined {
  const { export: about } = membersOf(parsed(text));
  return isObject(about) ? (about as ExportHeader['export']) : undefined;
}

async function listIn(lines: AsyncGenerator<Line>): Promise<CheckpointList> {
  const first = await lines.next();
  await lines.return(undefined);
  const { list } = membersOf(first.done ? undefined : parsed(first.value.text));
  const { jws, ids, digests } = membersOf(list);
  const isList = (value: unknown): value is string[] =>
    Array.isArray(value) && value.every((one) => typeof one === 'string');
  if (typeof jws !== 'string' || !readCheckpoint(jws) || !isList(ids) || !isList(digests))
    throw new NotVerifiable('the list of a checkpoint cannot be read');
  return { jws, ids, digests };
}

/** A line that is no item stands at its place as one that cannot be read. */
async function* itemsIn(
  lines: AsyncIterable<Line>,
  end = Infinity,
): AsyncGenerator<VerifiedItem, undefined> {
  let last = 0;
  for await (const { text } of lines) {
    if (text.startsWith(LIST_START)) {
      last = (readList(text)?.first.number ?? 1) - 1;
      continue;
    }
    const value = parsed(text);
    const { number } = membersOf(value);
    const isItem = isObject(value) && typeof number === 'number';
    last = isItem ? number : last + 1;
    if (last > end) continue;
    yield { number: last, item: isItem ? (value as SealedItem) : undefined };
  }
  return undefined;
}

function readList(text: string): Checkpoint | undefined {
  const { jws } = membersOf(membersOf(parsed(text))['list']);
  return typeof jws === 'string' ? readCheckpoint(jws) : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
