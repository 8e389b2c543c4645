import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { isMap, isSeq, parseDocument, type Pair } from 'yaml';
import { OTHER_VARIABLES, VARIABLE_PATHS } from '../../src/settings/environment.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { SETTINGS } from './reference.ts';
import { SECRET } from './settings-file.ts';

const CONFIG = join(import.meta.dirname, '../../config');
const EXAMPLE = join(CONFIG, 'production.example.yaml');

const VARIABLES = [...Object.keys(VARIABLE_PATHS), ...Object.keys(OTHER_VARIABLES)];
const ALL = SETTINGS.map(({ path }) => path);

/** Examples are `#key:`, or `#` in the first column followed by at least two spaces; prose is `# Prose`. */
function withExamples(text: string): string {
  return text
    .split('\n')
    .map((line) => line.replace(/^#(?= {2,})|^( *)#(?=[a-zA-Z-])/, '$1'))
    .join('\n');
}

type Explained = { name: string; explained: boolean };

/** `comment` precedes the group: YAML attaches the comment above a group's first key inside the group. */
function keysIn(node: unknown, path = '', comment: string | null | undefined = null): Explained[] {
  if (isSeq(node)) {
    return node.items.flatMap((item, index) => {
      const before = isMap(item) ? item.commentBefore : null;
      return keysIn(item, `${path}[]`, before ?? (index === 0 ? node.commentBefore : null));
    });
  }
  // These hold documents, keys, headers, parameters and one of several kinds, whose members the reference does not list.
  const isFree =
    /\.(match\.claims|document|jwks\.keys\[\]|headers|authorizationParameters|credential)$/.test(
      path,
    );
  if (!isMap(node) || isFree) return [];
  return node.items.flatMap(({ key, value }: Pair, index) => {
    const { value: text, commentBefore } = key as { value: string; commentBefore?: string | null };
    const name = path ? `${path}.${text}` : text;
    const above = commentBefore ?? (index === 0 ? (node.commentBefore ?? comment) : null);
    return [{ name, explained: Boolean(above?.trim()) }, ...keysIn(value, name)];
  });
}

describe('the production example', () => {
  const document = parseDocument(withExamples(readFileSync(EXAMPLE, 'utf8')));
  // Entries of `upstreams` and `identityProviders` repeat settings of `upstream` and `identityProvider`.
  const keys = keysIn(document.contents, '', document.commentBefore).filter(
    ({ name }) => !/\b(upstreams|identityProviders)\[\]\.(?!(id|name)$)/.test(name),
  );

  it('the example is valid YAML with every example line enabled', () => {
    expect(document.errors).to.deep.equal([]);
  });

  it('the example has every setting of the schema, and no other', () => {
    expect([...new Set(keys.map(({ name }) => name))].sort()).to.deep.equal([...ALL].sort());
  });

  it('the example explains every setting', () => {
    const explained = new Set(keys.filter((key) => key.explained).map(({ name }) => name));
    expect(ALL.filter((name) => !explained.has(name))).to.deep.equal([]);
  });

  it('the example names every environment variable', () => {
    const text = readFileSync(EXAMPLE, 'utf8');
    expect(VARIABLES.filter((name) => !new RegExp(`${name}\\b`).test(text))).to.deep.equal([]);
  });

  it('the example is valid in production with the secrets', () => {
    const settings = loadSettings({
      GATEHOUSE_CONFIG: EXAMPLE,
      GATEHOUSE_SECRET: SECRET,
      GATEHOUSE_MANAGEMENT_KEY: 'management-key-of-the-tests-0123456789',
    });
    expect(settings).to.include({ production: true, authUrl: 'https://auth.example.com' });
  });
});
