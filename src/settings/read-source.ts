// Reads the settings file, the secret file, the environment variables and the options of the command line.
import { lstatSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import {
  type CommandLineSettings,
  type Environment,
  type Variable,
  variablesIn,
} from './environment.ts';
import { SettingsError } from './issues.ts';
import { readSecrets, withSecrets } from './secret-file.ts';
import { type Reading, readSecret } from './secrets.ts';
import { withTrialLevels } from './upstream-option.ts';
import { errorCode, type Source, valueAt, withoutEmpty, withValue } from './source.ts';

const DEFAULT_FILE = 'config/development.yaml';

/** In the working directory. */
export const LOCAL_FILE = 'gatehouse.yaml';

/** The content of a settings file. Relative paths in it are resolved from `folder`. */
export type SettingsTree = { tree: unknown; folder: string };

/** Throws SettingsError if the settings file cannot be read or is not YAML. */
export function readSource(environment: Environment, options: CommandLineSettings = {}): Source {
  const { path, namedBy } = findSettingsFile(environment, options);
  const tree = parseSettingsText(readText(path, namedBy), path);
  const isTrial = namedBy === DEFAULT_FILE && options.upstream !== undefined;
  const complete = isTrial ? withTrialLevels(tree) : tree;
  return sourceOf({ tree: complete, folder: dirname(path) }, environment, options);
}

/** Applies the secret file, the environment variables and the options to the content of a settings file. */
export function sourceOf(
  { tree, folder }: SettingsTree,
  environment: Environment,
  options: CommandLineSettings = {},
): Source {
  const file = valueAt(tree, ['secretFile']);
  const secrets = typeof file === 'string' && file ? readSecrets(file, folder) : { issues: [] };
  const { value: store, issues: storeIssues }: Reading = environment['GATEHOUSE_STORE_FILE']
    ? readSecret(environment, 'GATEHOUSE_STORE', 1)
    : { issues: [] };
  const given = { ...environment, ...(store === undefined ? {} : { GATEHOUSE_STORE: store }) };
  const complete = withSecrets(given, secrets.value ?? {});
  const variables = variablesIn(complete, options);
  const document = variables.reduce<unknown>(
    (before, variable) => withValue(before, variable.path, variable.value),
    withoutReplaced(tree, variables),
  );
  return {
    document,
    variables,
    folder,
    environment: complete,
    issues: [...secrets.issues, ...storeIssues],
  };
}

/** Either variable replaces both `clientSecret` and `clientSecretFile`. */
function withoutReplaced(document: unknown, variables: Variable[]): unknown {
  if (!variables.some(({ path }) => path[0] === 'identityProvider')) return document;
  const paths = ['clientSecret', 'clientSecretFile'].map((key) => ['identityProvider', key]);
  return paths.reduce((tree, path) => withValue(tree, path, undefined), document);
}

/** The settings file of the working directory if it is the one that is read. It may be gone later. */
export function localSettingsFile(
  environment: Environment = process.env,
  options: CommandLineSettings = {},
): string | undefined {
  const { path, namedBy } = findSettingsFile(environment, options);
  return namedBy === LOCAL_FILE ? path : undefined;
}

/** `namedBy` is the option or variable that names the file. Relative paths are resolved from the working directory. */
function findSettingsFile(
  environment: Environment,
  { config }: CommandLineSettings,
): { path: string; namedBy: string } {
  const { GATEHOUSE_CONFIG } = environment;
  if (config !== undefined) return { path: resolve(config), namedBy: '--config' };
  if (GATEHOUSE_CONFIG) return { path: resolve(GATEHOUSE_CONFIG), namedBy: 'GATEHOUSE_CONFIG' };
  // A broken link must not lead to the development settings.
  const isLocal = lstatSync(resolve(LOCAL_FILE), { throwIfNoEntry: false }) !== undefined;
  if (isLocal) return { path: resolve(LOCAL_FILE), namedBy: LOCAL_FILE };
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

/** A dry run of a reload reads the same text several times, and parsing takes most of the time. */
let last: { text: string; tree: unknown } | undefined;

/** `path` names the text in errors. Throws SettingsError. */
export function parseSettingsText(text: string, path: string): unknown {
  if (last?.text !== text) last = { text, tree: parseText(text, path) };
  return structuredClone(last.tree);
}

function parseText(text: string, path: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines });
  const issues = document.errors.map(({ message, pos }) => {
    const { line, col } = lines.linePos(pos[0]);
    return syntaxIssue(`${path}, line ${line}, column ${col}`, message);
  });
  if (issues.length > 0) throw new SettingsError(issues);
  try {
    return withoutEmpty(document.toJS() ?? {});
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
