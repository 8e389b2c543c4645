// The settings before validation: the YAML file with the environment variables applied, addressed by path.
import { resolve } from 'node:path';
import type { Environment, Variable } from './environment.ts';
import { type SettingsIssue, characters } from './issues.ts';

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

/** Returns a copy with `value` at `path`. Keeps a value on the path that is not a mapping, so that the schema refuses it. */
export function withValue(tree: unknown, path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (tree !== undefined && !isMapping(tree)) return tree;
  return { ...tree, [key]: withValue(tree?.[key], rest, value) };
}

/** Returns a copy without empty keys, such as a group whose settings are all commented out. */
export function withoutEmpty(tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.map(withoutEmpty);
  if (!isMapping(tree)) return tree;
  const kept = Object.entries(tree).filter(([, value]) => value !== null);
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutEmpty(value)]));
}

/** Formats a path as `clients.preRegistered[0].name`. */
export function pathName(path: Path): string {
  return path.reduce<string>((name, key) => {
    if (typeof key === 'number') return `${name}[${key}]`;
    return name ? `${name}.${String(key)}` : String(key);
  }, '');
}

export function errorCode(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
}

/** `document` is the file with the environment variables and the options of the command line applied. */
export type Source = {
  document: unknown;
  variables: Variable[];
  /** The folder of the file, from which relative paths in it are resolved. */
  folder: string;
  /** With the secrets of `secretFile` that it does not set itself. */
  environment: Environment;
  /** The issues of `secretFile`. */
  issues: SettingsIssue[];
};

const SECRET_KEYS: readonly PropertyKey[] = ['secret', 'clientSecret'];
const MAX_SHOWN_CHARACTERS = 200;

/** Resolves `dataDir` from the folder of the file if the file sets it, and otherwise from the working directory. */
export function resolveDataDir({ document, folder }: Source, dataDir: string): string {
  const isSet = valueAt(document, ['dataDir']) !== undefined;
  return isSet ? resolve(folder, dataDir) : resolve(dataDir);
}

export function issueAt(
  source: Source,
  path: Path,
  expected: string,
  given = shownAt(source, path),
): SettingsIssue {
  return { setting: settingName(source, path), given, expected };
}

/** Returns the environment variable that set the value, or the path in the file. */
export function settingName(source: Source, path: Path): string {
  return variableAt(source, path)?.name ?? pathName(path);
}

function variableAt(source: Source, path: Path): Variable | undefined {
  return source.variables.find((variable) =>
    variable.path.every((key, depth) => key === path[depth]),
  );
}

function shownAt(source: Source, path: Path): string {
  const value = variableAt(source, path)?.text ?? valueAt(source.document, path);
  const isSecret = SECRET_KEYS.includes(path.at(-1) ?? '') || path.includes('headers');
  return isSecret ? hidden(value) : shown(value);
}

/** Never shows the content of a list or a group, because it may contain a secret. */
function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isMapping(value)) return `a group of settings (${Object.keys(value).join(', ')})`;
  const text = JSON.stringify(value) ?? typeof value;
  const isLong = text.length > MAX_SHOWN_CHARACTERS;
  return isLong || mayHoldPassword(text) ? hidden(value) : text;
}

/** An address may contain a password (redis://user:password@host). */
function mayHoldPassword(text: string): boolean {
  return /[:/].*@|password/i.test(text);
}

export function hidden(value: unknown): string {
  if (value === undefined || typeof value === 'object') return shown(value);
  return `a value of ${characters(String(value).length)}`;
}
