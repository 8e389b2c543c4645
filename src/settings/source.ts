// The settings before validation: the YAML file with the environment variables applied, addressed by path.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import {
  type CommandLineSettings,
  type Environment,
  type Variable,
  variablesIn,
} from './environment.ts';
import { SettingsError, type SettingsIssue, characters } from './issues.ts';

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

const DEFAULT_FILE = 'config/development.yaml';
const PACKAGE_FOLDER = resolve(import.meta.dirname, '../..');

/** `namedBy` is the option or variable that names the file. Relative paths are resolved from the working directory. */
function findSettingsFile(
  environment: Environment,
  { config }: CommandLineSettings,
): { path: string; namedBy: string } {
  const { GATEHOUSE_CONFIG } = environment;
  if (config !== undefined) return { path: resolve(config), namedBy: '--config' };
  if (GATEHOUSE_CONFIG) return { path: resolve(GATEHOUSE_CONFIG), namedBy: 'GATEHOUSE_CONFIG' };
  return { path: resolve(PACKAGE_FOLDER, DEFAULT_FILE), namedBy: DEFAULT_FILE };
}

function readText(path: string, setting: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const expected = `a readable settings file (${errorCode(cause)})`;
    throw new SettingsError([{ setting, given: JSON.stringify(path), expected }]);
  }
}

function parseYaml(text: string, path: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines });
  const issues = document.errors.map(({ message, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return syntaxIssue(`${path}, line ${line}, column ${col}`, message);
  });
  if (issues.length > 0) throw new SettingsError(issues);
  try {
    return document.toJS() ?? {};
  } catch (cause) {
    throw new SettingsError([
      syntaxIssue(path, cause instanceof Error ? cause.message : 'it cannot be read'),
    ]);
  }
}

function syntaxIssue(setting: string, message: string) {
  // The parser quotes the file after a colon, and the quote may contain a secret.
  return { setting, given: message.replace(/(?<=\S): .*/s, ''), expected: 'valid YAML' };
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
};

const SECRET_KEYS: readonly PropertyKey[] = ['secret', 'clientSecret'];
const MAX_SHOWN_CHARACTERS = 200;

/** Throws SettingsError if the file cannot be read or is not YAML. */
export function readSource(environment: Environment, options: CommandLineSettings = {}): Source {
  const { path: file, namedBy } = findSettingsFile(environment, options);
  const variables = variablesIn(environment, options);
  const document = variables.reduce<unknown>(
    (tree, { path, value }) => withValue(tree, path, value),
    withoutReplaced(withoutEmpty(parseYaml(readText(file, namedBy), file)), variables),
  );
  return { document, variables, folder: dirname(file) };
}

/** Resolves `dataDir` from the folder of the file if the file sets it, and otherwise from the working directory. */
export function resolveDataDir({ document, folder }: Source, dataDir: string): string {
  const isSet = valueAt(document, ['dataDir']) !== undefined;
  return isSet ? resolve(folder, dataDir) : resolve(dataDir);
}

/** Either variable replaces both `clientSecret` and `clientSecretFile`. */
function withoutReplaced(document: unknown, variables: Variable[]): unknown {
  if (!variables.some(({ path }) => path[0] === 'identityProvider')) return document;
  const paths = ['clientSecret', 'clientSecretFile'].map((key) => ['identityProvider', key]);
  return paths.reduce((tree, path) => withValue(tree, path, undefined), document);
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
  return SECRET_KEYS.includes(path.at(-1) ?? '') ? hidden(value) : shown(value);
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
