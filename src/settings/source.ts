// The settings before they are checked, and how one of them is named and shown to people.
import { valueAt, withValue, pathName, isMapping, type Path } from './document.ts';
import { variablesIn, type Environment, type Variable } from './environment.ts';
import { readSettingsFile } from './file.ts';
import { characters, type SettingsIssue } from './issues.ts';

/** `document` is the file with the environment over it. */
export type Source = { document: unknown; variables: Variable[] };

const SECRET_KEYS: readonly PropertyKey[] = ['secret', 'clientSecret'];
const LONGEST_SHOWN = 200;

/** Throws SettingsError when the file cannot be read or is not YAML. */
export function readSource(environment: Environment): Source {
  const variables = variablesIn(environment);
  const document = variables.reduce<unknown>(
    (tree, { path, value }) => withValue(tree, path, value),
    withoutReplaced(readSettingsFile(environment), variables),
  );
  return { document, variables };
}

/** A client secret and a file with the client secret say one thing in two ways: either variable replaces both. */
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

/** The environment variable, or the path in the file: `clients.preRegistered[0].name`. */
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

/** Never the content of a list or a group: there may be a secret in it. */
function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isMapping(value)) return `a group of settings (${Object.keys(value).join(', ')})`;
  const text = JSON.stringify(value) ?? typeof value;
  const isLong = text.length > LONGEST_SHOWN;
  return isLong || mayHoldPassword(text) ? hidden(value) : text;
}

/** Addresses may carry one (redis://user:password@host). */
function mayHoldPassword(text: string): boolean {
  return /[:/].*@|password/i.test(text);
}

export function hidden(value: unknown): string {
  if (value === undefined || typeof value === 'object') return shown(value);
  return `a value of ${characters(String(value).length)}`;
}
