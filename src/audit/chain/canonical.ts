// The canonical form of JSON (RFC 8785), from strings, booleans and safe integers only: libraries in other languages disagree about other numbers
// and about strings that are not Unicode, so that their digests would differ.

/** Members that are undefined are left out, as in JSON. Throws a TypeError for what has no canonical form. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'string' && value.isWellFormed()) return JSON.stringify(value);
  if (typeof value === 'boolean') return String(value);
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) return String(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null)
    throw new TypeError('only strings, booleans and safe integers have a canonical form');
  // The default order is that of UTF-16 code units, as the RFC wants it.
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `{${members.map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member)}`).join(',')}}`;
}

/** The same value with a canonical form: other numbers as text, null left out, and U+FFFD for halves of characters. */
export function withCanonicalForm(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : String(value);
  if (Array.isArray(value)) return value.map((member) => withCanonicalForm(member ?? ''));
  if (typeof value !== 'object' || value === null) return value ?? undefined;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), withCanonicalForm(member)]),
  );
}
