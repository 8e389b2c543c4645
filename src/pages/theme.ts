import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Languages, strictTranslator } from './languages.ts';
import {
  checkMessages,
  FALLBACK_LANGUAGE,
  isMessageFile,
  type MessageFile,
  type MessageFiles,
} from './messages.ts';
import { SAMPLES, SHARED_SAMPLES } from './samples.ts';
import { findTemplates, type Render } from './templates.ts';

/** The operator's theme is invalid. The message lists all problems, each with the file and, where known, the line. */
export class ThemeError extends Error {
  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(
      ['The theme cannot be used:', ...problems.map((text) => `  ${text}`)].join('\n'),
      options,
    );
    this.name = 'ThemeError';
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
  render: Render;
  /** The values that every page has besides its own. */
  shared: object;
};

/** Checks files and texts, and renders every page in every language with sample values. Throws ThemeError. */
export function checkTheme(theme: Theme): void {
  const english = theme.ownMessages.get(FALLBACK_LANGUAGE) ?? new Map();
  const problems = [...unknownFiles(theme), ...checkMessages(theme.themeMessages, english)];
  const all = problems.length > 0 ? problems : renderingErrors(theme);
  if (all.length > 0) throw new ThemeError(all);
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

/** A broken partial breaks every page in every language. */
const MAX_RENDERING_ERRORS = 3;

function renderingErrors({ languages, render, shared }: Theme): string[] {
  const errors = languages.names.flatMap((language) => {
    const translator = strictTranslator(languages.translator([language]));
    return Object.entries(SAMPLES).flatMap(([name, { view, values }]) => {
      const known = [...sampleValues(view), ...SHARED_SAMPLES, translator];
      try {
        render(view, { ...values, ...shared, ...translator }, (all) => strictValues(all, known));
        return [];
      } catch (error) {
        return [`${(error as Error).message.trim()} (the page ${name}, in ${language})`];
      }
    });
  });
  return errors.slice(0, MAX_RENDERING_ERRORS);
}

function sampleValues(view: string): object[] {
  return Object.values(SAMPLES).flatMap((sample) => (sample.view === view ? [sample.values] : []));
}

/** Throws when a template reads a member that neither `values` nor `known`, other values of the same type, have. */
function strictValues(values: object, known: readonly unknown[], path = 'page'): object {
  return new Proxy(values, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof key === 'symbol') return value;
      const others = known.filter(isObject);
      if (!(key in target) && !others.some((other) => key in other))
        throw new Error(`${path}.${key} is not among the values of this page`);
      if (!isObject(value)) return value;
      return strictValues(
        value,
        others.flatMap((other) => membersOf(other, key, Array.isArray(target))),
        `${path}.${key}`,
      );
    },
  });
}

/** All items of a list have the same type. */
function membersOf(other: object, key: string, isList: boolean): unknown[] {
  return isList && Array.isArray(other) ? other : [Reflect.get(other, key)];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
