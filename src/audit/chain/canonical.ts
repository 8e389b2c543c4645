// The canonical form of JSON (RFC 8785), from strings, booleans and safe integers only: libraries in other languages disagree about other numbers
// and about strings that are not Unicode, so that their digests would differ.

/** Members that are undefined are left out, as in JSON. Throws a TypeError for what has no canonical form. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return String(checked(value));
  return canonicalObject(value as Record<string, unknown>);
}

/** The names of members as they stand in the canonical form. The default order is that of UTF-16 code units, as the RFC wants it. */
type Order = readonly { name: string; text: string; isGiven: boolean }[];

const MAX_ORDERS = 100;

/** Returns the canonical form of objects without some members, and with the `given` ones in place of their own. The names of objects that have the same ones are put in order once. */
export function canonicalObjects(
  without: ReadonlySet<string> = new Set(),
  given: readonly string[] = [],
): (members: Record<string, unknown>, more?: Record<string, unknown>) => string {
  type Known = { names: readonly string[]; order: Order };
  const known = new Map<string, Known>();
  let last: Known = { names: [], order: [] };
  const isFor = (names: readonly string[], { names: others }: Known) =>
    names.length === others.length && names.every((name, index) => name === others[index]);
  const orderOf = (names: readonly string[]): Order => {
    if (isFor(names, last)) return last.order;
    const key = names.join();
    const found = known.get(key);
    // Names may contain what joins them.
    if (found && isFor(names, found)) {
      last = found;
      return found.order;
    }
    const order = [...new Set([...names, ...given])]
      .filter((name) => !without.has(name))
      .toSorted()
      .map((name) => ({ name, text: `${quoted(name)}:`, isGiven: given.includes(name) }));
    if (known.size >= MAX_ORDERS) known.clear();
    last = { names, order };
    known.set(key, last);
    return order;
  };
  return (members, more = {}) => {
    let inside = '';
    for (const { name, text, isGiven } of orderOf(Object.keys(members))) {
      const value = isGiven ? more[name] : members[name];
      if (value === undefined) continue;
      inside += inside === '' ? text : `,${text}`;
      inside += canonicalJson(value);
    }
    return `{${inside}}`;
  };
}

const canonicalObject = canonicalObjects();

/** Printable ASCII without a quotation mark or a backslash, which stands in JSON as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(checked(text));
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
  const members = value as Record<string, unknown>;
  if (Object.keys(members).every((name) => name.isWellFormed() && hasCanonicalForm(members[name])))
    return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.toWellFormed(), withCanonicalForm(member)]),
  );
}
