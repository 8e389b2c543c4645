// Values that must stay secret, looked for in bytes that others may read, however they are written there.

/** What the value is, and the value. */
export type Canaries = Map<string, string>;

/** Shorter ones turn up by chance. */
const LEAST_CHARACTERS = 8;

/** Which of the canaries are in the bytes, and in what writing. */
export function findCanaries(canaries: Canaries, bytes: Buffer): string[] {
  const text = bytes.toString('latin1');
  const found: string[] = [];
  for (const [what, value] of canaries) {
    if (value.length < LEAST_CHARACTERS) throw new Error(`${what} is too short to be looked for`);
    for (const [writing, written] of Object.entries(writingsOf(value)))
      if (text.includes(written)) found.push(`${what}, ${writing}`);
  }
  return found;
}

/** As it is, for URLs and forms, in hexadecimal, and in base64 wherever in a longer text it begins. */
export function writingsOf(value: string): Record<string, string> {
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
