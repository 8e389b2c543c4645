// The settings as a plain tree, before they are checked: read, replace and leave out by path.

export type Path = readonly PropertyKey[];
export type Mapping = Readonly<Record<PropertyKey, unknown>>;

export function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function valueAt(tree: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (node, key) => (isMapping(node) || Array.isArray(node) ? (node as Mapping)[key] : undefined),
    tree,
  );
}

/** A copy with `value` at `path`. Where something else than a mapping is in the way it stays, for the schema to refuse. */
export function withValue(tree: unknown, path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (tree !== undefined && !isMapping(tree)) return tree;
  return { ...tree, [key]: withValue(tree?.[key], rest, value) };
}

/** A copy without the keys that have nothing after the colon: what is left of a group whose settings are all commented out. */
export function withoutEmpty(tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.map(withoutEmpty);
  if (!isMapping(tree)) return tree;
  const kept = Object.entries(tree).filter(([, value]) => value !== null);
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutEmpty(value)]));
}

/** `clients.preRegistered[0].name` */
export function pathName(path: Path): string {
  return path.reduce<string>((name, key) => {
    if (typeof key === 'number') return `${name}[${key}]`;
    return name ? `${name}.${String(key)}` : String(key);
  }, '');
}
