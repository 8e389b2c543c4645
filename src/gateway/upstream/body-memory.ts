// Reuses the memory of large answers. V8 counts new memory as if it were objects that live long, and soon marks the whole heap, which takes
// several times the rest of a call.

/** Of what is kept. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_LENGTH = 2 * 1024 * 1024;
/** Lengths are multiples of it, so that answers of similar sizes use the same memory. */
const STEP = 64 * 1024;

/** The oldest first. */
const kept: Buffer[] = [];
let keptBytes = 0;

/** At least so many bytes, of any values. */
export function takeMemory(capacity: number): Buffer {
  const length = Math.ceil(capacity / STEP) * STEP;
  const at = kept.findLastIndex((memory) => memory.length === length);
  const [memory] = at === -1 ? [] : kept.splice(at, 1);
  if (!memory) return Buffer.allocUnsafeSlow(length);
  keptBytes -= length;
  return memory;
}

/** Takes all of the memory that `part` is in. Nobody may read it any more: the next one to take it writes to it. */
export function giveBackMemory({ buffer }: Buffer): void {
  if (buffer.byteLength > MAX_LENGTH) return freeMemory(buffer);
  kept.push(Buffer.from(buffer));
  keptBytes += buffer.byteLength;
  while (keptBytes > MAX_BYTES) {
    const oldest = kept.shift() as Buffer;
    keptBytes -= oldest.length;
    freeMemory(oldest.buffer);
  }
}

/** Now, because garbage of this kind is counted until it is collected. */
export function freeMemory(memory: ArrayBufferLike): void {
  (memory as ArrayBuffer).transfer(0);
}
