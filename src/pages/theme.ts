import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Languages } from './languages.ts';
import {
  checkMessages,
  FALLBACK_LANGUAGE,
  isMessageFile,
  type MessageFile,
  type MessageFiles,
} from './messages.ts';
import { findTemplates } from './templates.ts';

/** The operator's theme is invalid. The message lists all problems, each with the file and, where known, the line. */
export class ThemeError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(
      ['The theme cannot be used:', ...problems.map((text) => `  ${text}`)].join('\n'),
      options,
    );
    this.name = 'ThemeError';
    this.problems = problems;
  }
}

/** Calls `open`, and throws its errors as ThemeError. */
export function withThemeErrors<T>(theme: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof ThemeError) throw error;
    const { message } = error as Error;
    throw new ThemeError([message.includes(theme) ? message : `${theme}: ${message}`], {
      cause: error,
    });
  }
}

export type Theme = {
  /** Directories of the theme and of our views. */
  theme: string;
  own: string;
  ownMessages: MessageFiles;
  themeMessages: Map<string, MessageFile>;
  languages: Languages;
  /** The values that every page has besides its own. */
  shared: object;
};

/** Checks file names, message files, and the texts, partials and values that templates name. Throws ThemeError. */
export function checkTheme(theme: Theme): void {
  const english = theme.ownMessages.get(FALLBACK_LANGUAGE) ?? new Map();
  const problems = [
    ...unknownFiles(theme),
    ...checkMessages(theme.themeMessages, english),
    ...unknownReferences(theme),
  ];
  if (problems.length > 0) throw new ThemeError(problems);
}

const FILES =
  /^(logo(-dark)?\.(svg|png|webp|jpg)|colours\.css|assets\/(style\.css|icon\.svg)|partials\/.*\.ejs|.*\.md|(assets|console|partials|messages))$/;
const MESSAGES = 'messages/';

/** A file with a misspelt name would have no effect. */
function unknownFiles({ theme, own }: Theme): string[] {
  const views = new Set([...findTemplates([own]).keys()].map((name) => `${name}.ejs`));
  const isMessages = (file: string) => file.startsWith(MESSAGES);
  const isKnown = (file: string) =>
    FILES.test(file) ||
    views.has(file) ||
    basename(file).startsWith('.') ||
    (isMessages(file) && isMessageFile(file.slice(MESSAGES.length)));
  return readdirSync(theme, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => !isKnown(file))
    .map((file) => `${join(theme, file)}: ${isMessages(file) ? NO_LANGUAGE : NO_TEMPLATE}`);
}

const NO_LANGUAGE =
  'name message files by the tag of their language, such as de.yaml or pt-BR.yaml';
const NO_TEMPLATE = 'there is no page or partial with this name';

/** The same mistake often stands in many templates. */
const MAX_TEMPLATE_ERRORS = 10;

/** What a template takes from `page` (`const { links } = page`), or passes to a partial. */
const NAMES = /const \{([^}]*)\} = page|include\('[^']+', \{([^%]*)\}\)/g;
const READ_VALUES = /\bpage\.(\w+)/g;

/** Returns the texts, partials and values that templates of the theme name and that do not exist, each with file and line. */
function unknownReferences({ theme, own, languages, shared }: Theme): string[] {
  const [ours, added] = [readTemplates(own), readTemplates(theme)];
  const translator = languages.translator([FALLBACK_LANGUAGE]);
  const partials = new Set([...ours, ...added].map(({ name }) => name));
  const values = new Set([
    ...Object.keys({ ...translator, ...shared }),
    ...[...ours, ...added].flatMap(({ text }) => [...text.matchAll(NAMES)].flatMap(namesIn)),
    ...ours.flatMap(({ text }) => [...text.matchAll(READ_VALUES)].map(([, name]) => name)),
  ]);
  const references: [pattern: RegExp, exists: (name: string) => boolean, says: Says][] = [
    [
      /\b(?:t|tMarked|say|mark)\(\s*'([\w-]+\.[\w.-]+)'/g,
      translator.has,
      (key) => `there is no text called ${key}`,
    ],
    [
      /\binclude\(\s*'([^']+)'/g,
      (name) => partials.has(name),
      (name) => `there is no template ${name}.ejs`,
    ],
    [READ_VALUES, (name) => values.has(name), (name) => `page.${name} is not a value of any page`],
  ];
  const errors = added.flatMap(({ file, text }) =>
    references.flatMap(([pattern, exists, says]) =>
      [...text.matchAll(pattern)]
        .filter(([, name = '']) => !exists(name))
        .map(({ index, 1: name = '' }) => `${file}:${lineAt(text, index)}: ${says(name)}`),
    ),
  );
  return errors.slice(0, MAX_TEMPLATE_ERRORS);
}

type Says = (name: string) => string;

function readTemplates(directory: string): { name: string; file: string; text: string }[] {
  return [...findTemplates([directory])].map(([name, file]) => ({
    name,
    file,
    text: readFileSync(file, 'utf8'),
  }));
}

function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

/** `a, b: c` names `a` and `b`. */
function namesIn([, taken = '', given = '']: RegExpMatchArray): string[] {
  return [...`${taken},${given}`.matchAll(/(?:^|,)\s*(\w+)/g)].map(([, name = '']) => name);
}
