// Reuses the memory of large answers. V8 counts new memory towards the next marking of the whole heap, which takes several times as long as
// the rest of a call.

/** Of all kept memory. */
const MAX_BYTES = 16 * 1024 * 1024;
/** Of one kept buffer. */
const MAX_LENGTH = 2 * 1024 * 1024;
/** Lengths are multiples of it, so that answers of similar sizes use the same memory. */
const STEP = 64 * 1024;

/** The oldest first. */
const kept: Buffer[] = [];
let keptBytes = 0;

/** Returns at least `capacity` bytes, uninitialized. */
export function acquireMemory(capacity: number): Buffer {
  const length = Math.ceil(capacity / STEP) * STEP;
  const at = kept.findLastIndex((memory) => memory.length === length);
  const [memory] = at === -1 ? [] : kept.splice(at, 1);
  if (!memory) return Buffer.allocUnsafeSlow(length);
  keptBytes -= length;
  return memory;
}

/** Keeps the whole memory that `part` is in for reuse. Nobody may read it any more, because the next answer overwrites it. */
export function releaseMemory({ buffer }: Buffer): void {
  if (buffer.byteLength > MAX_LENGTH) return freeMemory(buffer);
  kept.push(Buffer.from(buffer));
  keptBytes += buffer.byteLength;
  while (keptBytes > MAX_BYTES) {
    const oldest = kept.shift() as Buffer;
    keptBytes -= oldest.length;
    freeMemory(oldest.buffer);
  }
}

/** Frees the memory at once. V8 would count it until the garbage collector runs. */
export function freeMemory(memory: ArrayBufferLike): void {
  (memory as ArrayBuffer).transfer(0);
}
