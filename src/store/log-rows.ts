// The index of a log: one row of fixed size for each entry that is listed, which databases keep in blocks, so that a million of them are read in
// moments and without decrypting anything.

/** So many terms can be searched for. The first one may be replaced by the entry that completes this one. */
export const LOG_TERMS = 7;
export const NUMBER_BYTES = 6;
const TIME_BYTES = 4;
export const TERM_BYTES = 4;

// The place of each column in a row.
const TIME_AT = NUMBER_BYTES;
export const COMPLETED_AT = TIME_AT + TIME_BYTES;
export const TERMS_AT = COMPLETED_AT + NUMBER_BYTES;
/** The number and the first term of a row, which is what the entry that completes it gives. */
export const COMPLETION_BYTES = NUMBER_BYTES + TERM_BYTES;
export const ROW_BYTES = TERMS_AT + LOG_TERMS * TERM_BYTES;
/** A block fits on a page of SQLite. */
export const BLOCK_ROWS = 90;

const LATEST_TIME = 2 ** 32 - 1;

/**
 * The row of an entry without its number, which the database puts in front: its time in whole seconds, the number of the entry that completes it
 * (0 until then), and the hashes of its terms (0 for what it does not have).
 */
export function rowWithoutNumber(time: number, terms: readonly number[]): Buffer {
  const row = Buffer.allocUnsafe(ROW_BYTES - NUMBER_BYTES).fill(0);
  row.writeUInt32BE(Math.min(Math.max(Math.floor(time), 0), LATEST_TIME), 0);
  terms.forEach((term, index) =>
    row.writeUInt32BE(term, TERMS_AT - NUMBER_BYTES + index * TERM_BYTES),
  );
  return row;
}

export function numberBytes(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(NUMBER_BYTES);
  bytes.writeUIntBE(number, 0, NUMBER_BYTES);
  return bytes;
}

export function rowCount(block: Buffer): number {
  return block.length / ROW_BYTES;
}

export function numberAt(block: Buffer, index: number): number {
  return block.readUIntBE(index * ROW_BYTES, NUMBER_BYTES);
}

export function timeAt(block: Buffer, index: number): number {
  return block.readUInt32BE(index * ROW_BYTES + TIME_AT);
}

/** The number of the entry that completes the one of the row; 0 if none does. */
export function completedBy(block: Buffer, index: number): number {
  return block.readUIntBE(index * ROW_BYTES + COMPLETED_AT, NUMBER_BYTES);
}

export function termAt(block: Buffer, index: number, term: number): number {
  return block.readUInt32BE(index * ROW_BYTES + TERMS_AT + term * TERM_BYTES);
}

/** The rows for which `keep` is true. */
export function keptRows(block: Buffer, keep: (index: number) => boolean): Buffer {
  const kept: Buffer[] = [];
  for (let index = 0; index < rowCount(block); index += 1)
    if (keep(index)) kept.push(block.subarray(index * ROW_BYTES, (index + 1) * ROW_BYTES));
  return Buffer.concat(kept);
}

/** What the row of an entry gets from the entry that completes it: its number and its first term. */
export function completionOf(number: number, row: Buffer): Buffer {
  const at = TERMS_AT - NUMBER_BYTES;
  return Buffer.concat([numberBytes(number), row.subarray(at, at + TERM_BYTES)]);
}

/** Undefined if the block does not have the row with this first term. */
export function withCompleted(
  block: Buffer,
  { number, term }: { number: number; term: number },
  by: Buffer,
): Buffer | undefined {
  for (let index = 0; index < rowCount(block); index += 1) {
    if (numberAt(block, index) !== number || termAt(block, index, 0) !== term) continue;
    const changed = Buffer.from(block);
    by.copy(changed, index * ROW_BYTES + COMPLETED_AT);
    return changed;
  }
  return undefined;
}
