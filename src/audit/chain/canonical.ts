// The canonical form of JSON (RFC 8785), from strings, booleans and safe integers only: libraries in other languages disagree about other numbers
// and about strings that are not Unicode, so that their digests would differ.

/** Members that are undefined are left out, as in JSON. Throws a TypeError for what has no canonical form. */
export function canonicalJson(value: unknown): string {
  const ordered = inOrder(value);
  return ordered === undefined ? assembled(value) : JSON.stringify(ordered);
}

/** The value with its members in order, which JSON keeps. Undefined for names with a place of their own in objects, as digits have. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return checked(value);
  if (Array.isArray(value)) {
    const items: unknown[] = value.map(inOrder);
    return items.includes(undefined) ? undefined : items;
  }
  const members = value as Record<string, unknown>;
  const ordered: Record<string, unknown> = {};
  for (const name of namesOf(members)) {
    const member = inOrder(members[name]);
    if (member === undefined || /^[\d_]/.test(name)) return undefined;
    ordered[name] = member;
  }
  return ordered;
}

function assembled(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(checked(value));
  if (Array.isArray(value)) return `[${value.map(assembled).join(',')}]`;
  const members = value as Record<string, unknown>;
  const texts = namesOf(members).map(
    (name) => `${JSON.stringify(name)}:${assembled(members[name])}`,
  );
  return `{${texts.join(',')}}`;
}

/** The default order is that of UTF-16 code units, as the RFC wants it. */
function namesOf(members: Record<string, unknown>): string[] {
  const names = Object.keys(members).filter((name) => members[name] !== undefined);
  for (const name of names) checked(name);
  return names.sort();
}

function checked(value: unknown): unknown {
  if (value !== undefined && hasCanonicalForm(value)) return value;
  throw new TypeError('only strings, booleans and safe integers have a canonical form');
}

/** Whether `withCanonicalForm` would change nothing. False for lists and objects, which few items have. */
function hasCanonicalForm(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value === 'number') return Number.isSafeInteger(value) && !Object.is(value, -0);
  return typeof value === 'boolean' || value === undefined;
}

/** The same value with a canonical form: other numbers as text, null left out, and U+FFFD for halves of characters. */
export function withCanonicalForm(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : String(value);
  if (Array.isArray(value)) return value.map((member) => withCanonicalForm(member ?? ''));
  if (typeof value !== 'object' || value === null) return value ?? undefined;
  if (Object.values(value).every(hasCanonicalForm) && Object.keys(value).every(isWellFormed))
    return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), withCanonicalForm(member)]),
  );
}

function isWellFormed(name: string): boolean {
  return name.isWellFormed();
}
