import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { IntlMessageFormat } from 'intl-messageformat';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';

export const FALLBACK_LANGUAGE = 'en';

/** The texts of one language by key (`consent.title`). `place` is file and line. */
export type MessageFile = Map<string, { text: string; place: string }>;

/** Files by language. A `Map` is one. */
export type MessageFiles = {
  keys: () => Iterable<string>;
  get: (language: string) => MessageFile | undefined;
};

/** Tags in texts. `views/partials/text.ejs` renders them. */
export const TAGS = ['claim', 'fact', 'name', 'code', 'strong'] as const;

const LEVEL_TEXT = /^levels\.([a-z][a-z0-9-]*)\.(title|sees|hidden|example)$/;

/** Returns the level that a text is about. It need not be in the settings. */
export function levelOfText(key: string): string | undefined {
  return LEVEL_TEXT.exec(key)?.[1];
}

export function titleKey(level: string): string {
  return `levels.${level}.title`;
}

/** Texts for an operator's own templates. */
const OWN_PREFIX = 'own.';

/** Returns the files of a directory by language, none if it does not exist. Throws an error with file and line. */
export function readMessageFiles(directory: string): Map<string, MessageFile> {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const files = names.filter(isMessageFile);
  return new Map(
    files.map((file) => [
      basename(file, '.yaml'),
      parseMessages(readSource(join(directory, file))),
    ]),
  );
}

/** Like `readMessageFiles`, but parses each file when it is first needed, because parsing all takes a quarter of a start. */
export function openMessageFiles(directory: string): MessageFiles {
  const paths = readdirSync(directory)
    .filter(isMessageFile)
    .map((file) => join(directory, file));
  const sources = new Map(paths.map((path) => [basename(path, '.yaml'), readSource(path)]));
  return lazyFiles(sources.keys(), (language) => {
    const source = sources.get(language);
    return source ? parseMessages(source) : new Map();
  });
}

/** Calls `read` at the first use of a language. */
export function lazyFiles(
  languages: Iterable<string>,
  read: (language: string) => MessageFile,
): MessageFiles {
  const known = new Set(languages);
  const files = new Map<string, MessageFile>();
  return {
    keys: () => known,
    get(language) {
      if (!known.has(language)) return undefined;
      const file = files.get(language) ?? read(language);
      files.set(language, file);
      return file;
    },
  };
}

/** Whether a file is named by a language tag in canonical case: `de.yaml`, `pt-BR.yaml` (RFC 5646 section 2.1.1). */
export function isMessageFile(name: string): boolean {
  try {
    return name === `${String(Intl.getCanonicalLocales(basename(name, '.yaml')))}.yaml`;
  } catch {
    return false;
  }
}

type Source = { path: string; yaml: string };

function readSource(path: string): Source {
  return { path, yaml: readFileSync(path, 'utf8') };
}

function parseMessages({ path, yaml }: Source): MessageFile {
  const lines = new LineCounter();
  const document = parseDocument(yaml, { lineCounter: lines });
  const [error] = document.errors;
  if (error) throw new Error(`${path}: ${error.message}`, { cause: error });
  const messages: MessageFile = new Map();
  collect(document.contents, '', (key, text, offset) =>
    messages.set(key, { text, place: `${path}:${lines.linePos(offset).line}` }),
  );
  return messages;
}

type AddText = (key: string, text: string, offset: number) => void;

function collect(node: unknown, path: string, addText: AddText): void {
  if (isMap(node)) {
    for (const { key, value } of node.items)
      collect(value, path ? `${path}.${String(key)}` : String(key), addText);
  } else if (isScalar(node) && node.value !== null) {
    addText(path, String(node.value), node.range?.[0] ?? 0);
  }
}

/** Returns unknown keys, syntax errors, and values and tags that the page does not have, each with file and line. */
export function checkMessages(files: Map<string, MessageFile>, english: MessageFile): string[] {
  return [...files].flatMap(([language, file]) =>
    [...file].flatMap(([key, { text, place }]) =>
      checkText(language, key, text, english).map((problem) => `${place}: ${problem}`),
    ),
  );
}

function checkText(language: string, key: string, text: string, english: MessageFile): string[] {
  const original = english.get(key);
  if (!original && !key.startsWith(OWN_PREFIX) && levelOfText(key) === undefined)
    return [`there is no text called ${key}`];
  try {
    const { values, tags } = placeholdersOf(text, language);
    const known = original ? placeholdersOf(original.text, FALLBACK_LANGUAGE).values : values;
    return [
      ...without(values, known).map((name) => `${key} is not told {${name}}`),
      ...without(tags, new Set(TAGS)).map((tag) => `<${tag}> is not one of ${TAGS.join(', ')}`),
    ];
  } catch (error) {
    return [`${key} cannot be read: ${String(error)}`];
  }
}

function without(names: Set<string>, known: ReadonlySet<string>): string[] {
  return [...names].filter((name) => !known.has(name));
}

type Placeholders = { values: Set<string>; tags: Set<string> };
type Element = ReturnType<IntlMessageFormat['getAst']>[number];

/** Returns the values and tags that a message uses. Throws if it is not ICU MessageFormat. */
export function placeholdersOf(text: string, language: string): Placeholders {
  const found: Placeholders = { values: new Set(), tags: new Set() };
  visit(new IntlMessageFormat(text, language).getAst(), found);
  return found;
}

/** Element types of `@formatjs/icu-messageformat-parser`. */
const LITERAL = 0;
const POUND = 7;
const TAG = 8;

function visit(elements: Element[], found: Placeholders): void {
  for (const element of elements) {
    if (element.type === TAG) found.tags.add(element.value);
    else if (element.type !== LITERAL && element.type !== POUND) found.values.add(element.value);
    if ('children' in element) visit(element.children, found);
    if ('options' in element)
      for (const option of Object.values(element.options)) visit(option.value, found);
  }
}
