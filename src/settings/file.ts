// Reads the settings file: YAML 1.2, one mapping.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import { withoutEmpty } from './document.ts';
import type { Environment } from './environment.ts';
import { SettingsError } from './issues.ts';

/** Where relative paths in the settings file start. */
export const PROJECT_ROOT = resolve(import.meta.dirname, '../..');

const DEFAULT_FILE = 'config/development.yaml';

/** The file named by GATEHOUSE_CONFIG, as a tree. Throws SettingsError when it cannot be read or is not YAML. */
export function readSettingsFile(environment: Environment): unknown {
  const named = environment['GATEHOUSE_CONFIG'];
  const path = named ? resolve(named) : resolve(PROJECT_ROOT, DEFAULT_FILE);
  return withoutEmpty(parseYaml(readText(path, named ? 'GATEHOUSE_CONFIG' : DEFAULT_FILE), path));
}

function readText(path: string, setting: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const expected = `a settings file that can be read (${errorCode(cause)})`;
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
  // What follows a colon in these messages is a piece of the file, and that piece may be a secret.
  return { setting, given: message.replace(/(?<=\S): .*/s, ''), expected: 'valid YAML' };
}

export function errorCode(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
}
