// Searches bytes for secret values in several encodings.

/** Description and value of each secret. */
export type Canaries = Map<string, string>;

/** Shorter values occur by chance. */
const MIN_CHARACTERS = 8;

/** Description and encoding of every canary in `bytes`. */
export function findCanaries(canaries: Canaries, bytes: Buffer): string[] {
  const byPrefix = new Map<number, { name: string; encoded: Buffer }[]>();
  for (const [what, value] of canaries) {
    if (value.length < MIN_CHARACTERS) throw new Error(`${what} is too short to search for`);
    for (const [encoding, text] of Object.entries(encodingsOf(value))) {
      const encoded = Buffer.from(text, 'latin1');
      const prefix = encoded.readInt32BE();
      const others = byPrefix.get(prefix) ?? [];
      byPrefix.set(prefix, [...others, { name: `${what}, ${encoding}`, encoded }]);
    }
  }
  const found = new Set<string>();
  let lastFour = 0;
  // One pass over the bytes, which can be megabytes, for thousands of texts.
  for (let end = 1; end <= bytes.length; end += 1) {
    lastFour = (lastFour << 8) | (bytes[end - 1] ?? 0);
    const start = end - 4;
    for (const { name, encoded } of byPrefix.get(lastFour) ?? [])
      if (start >= 0 && encoded.equals(bytes.subarray(start, start + encoded.length)))
        found.add(name);
  }
  return [...found];
}

/** Plain, URL-encoded, hexadecimal, and base64 at each of the three alignments in a longer text. */
export function encodingsOf(value: string): Record<string, string> {
  const bytes = Buffer.from(value);
  const base64 = [0, 1, 2].flatMap((start) => {
    const text = Buffer.concat([Buffer.alloc(start), bytes]).toString('base64');
    const within = text.slice(
      Math.ceil((start * 8) / 6),
      Math.floor(((start + bytes.length) * 8) / 6),
    );
    return [
      [`base64 from ${start}`, within],
      [`base64url from ${start}`, within.replaceAll('+', '-').replaceAll('/', '_')],
    ];
  });
  return {
    plain: bytes.toString('latin1'),
    'URL-encoded': encodeURIComponent(value),
    'form-encoded': new URLSearchParams([['', value]]).toString().slice(1),
    hexadecimal: bytes.toString('hex'),
    ...Object.fromEntries(base64),
  };
}
