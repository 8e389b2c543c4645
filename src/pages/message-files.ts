// Message files: one YAML file for each language, read flat (`consent.title`), and checked against the English one.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { IntlMessageFormat } from 'intl-messageformat';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';
import { FALLBACK } from './languages.ts';

/** `place` is the file and line, for whoever has to mend it. */
export type Message = { text: string; place: string };
export type MessageFile = Map<string, Message>;

/** The tags that mark a part of a text; views/partials/text.ejs shows what becomes of them. */
export const TAGS = ['claim', 'fact', 'name', 'code', 'strong'] as const;

/** Texts that only an operator's own templates use. */
const OWN = 'own.';

/** The files of a directory by language; none when there is no such directory. Throws an error that names file and line. */
export function readMessageFiles(directory: string): Map<string, MessageFile> {
  const names = existsSync(directory) ? readdirSync(directory) : [];
  const files = names.filter(isMessageFile);
  return new Map(
    files.map((file) => [basename(file, '.yaml'), readMessageFile(join(directory, file))]),
  );
}

/** Whether a file is named by the tag of a language in its usual form: `de.yaml`, `pt-BR.yaml` (RFC 5646 section 2.1.1). */
export function isMessageFile(name: string): boolean {
  try {
    return name === `${String(Intl.getCanonicalLocales(basename(name, '.yaml')))}.yaml`;
  } catch {
    return false;
  }
}

function readMessageFile(path: string): MessageFile {
  const lines = new LineCounter();
  const document = parseDocument(readFileSync(path, 'utf8'), { lineCounter: lines });
  const [error] = document.errors;
  if (error) throw new Error(`${path}: ${error.message}`, { cause: error });
  const messages: MessageFile = new Map();
  collect(document.contents, '', (key, text, offset) =>
    messages.set(key, { text, place: `${path}:${lines.linePos(offset).line}` }),
  );
  return messages;
}

type Found = (key: string, text: string, offset: number) => void;

function collect(node: unknown, path: string, found: Found): void {
  if (isMap(node)) {
    for (const { key, value } of node.items)
      collect(value, path ? `${path}.${String(key)}` : String(key), found);
  } else if (isScalar(node) && node.value !== null) {
    found(path, String(node.value), node.range?.[0] ?? 0);
  }
}

/** What is wrong with the files, each with file and line: unknown keys, wrong syntax, values and tags that the page does not have. */
export function messageMistakes(files: Map<string, MessageFile>, english: MessageFile): string[] {
  return [...files].flatMap(([language, file]) =>
    [...file].flatMap(([key, { text, place }]) =>
      mistakesOf(language, key, text, english).map((mistake) => `${place}: ${mistake}`),
    ),
  );
}

function mistakesOf(language: string, key: string, text: string, english: MessageFile): string[] {
  const original = english.get(key);
  if (!original && !key.startsWith(OWN)) return [`there is no text called ${key}`];
  try {
    const { values, tags } = ingredientsOf(text, language);
    const given = original ? ingredientsOf(original.text, FALLBACK).values : values;
    return [
      ...without(values, given).map((name) => `${key} is not told {${name}}`),
      ...without(tags, new Set(TAGS)).map((tag) => `<${tag}> is not one of ${TAGS.join(', ')}`),
    ];
  } catch (error) {
    return [`${key} cannot be read: ${String(error)}`];
  }
}

function without(names: Set<string>, known: ReadonlySet<string>): string[] {
  return [...names].filter((name) => !known.has(name));
}

type Ingredients = { values: Set<string>; tags: Set<string> };
type Element = ReturnType<IntlMessageFormat['getAst']>[number];

/** The values and tags that a message uses. Throws when it is not ICU MessageFormat. */
export function ingredientsOf(text: string, language: string): Ingredients {
  const found: Ingredients = { values: new Set(), tags: new Set() };
  visit(new IntlMessageFormat(text, language).getAst(), found);
  return found;
}

const LITERAL = 0;
const POUND = 7;
const TAG = 8;

function visit(elements: Element[], found: Ingredients): void {
  for (const element of elements) {
    if (element.type === TAG) found.tags.add(element.value);
    else if (element.type !== LITERAL && element.type !== POUND) found.values.add(element.value);
    if ('children' in element) visit(element.children, found);
    if ('options' in element)
      for (const option of Object.values(element.options)) visit(option.value, found);
  }
}
