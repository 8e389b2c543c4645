// Searches bytes for secret values in several encodings.

/** Description and value of each secret. */
export type Canaries = Map<string, string>;

/** Shorter values occur by chance. */
const MIN_CHARACTERS = 8;

/** Description and encoding of every canary in `bytes`. */
export function findCanaries(canaries: Canaries, bytes: Buffer): string[] {
  const text = bytes.toString('latin1');
  const found: string[] = [];
  for (const [what, value] of canaries) {
    if (value.length < MIN_CHARACTERS) throw new Error(`${what} is too short to search for`);
    for (const [encoding, encoded] of Object.entries(encodingsOf(value)))
      if (text.includes(encoded)) found.push(`${what}, ${encoding}`);
  }
  return found;
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
