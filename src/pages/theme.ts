// An operator's theme is tried out at the start: what is wrong with it is said to the operator, with file and line, and to nobody else.
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { isMessageFile, type MessageFile, messageMistakes } from './message-files.ts';
import { type Languages, strictSpeech } from './messages.ts';
import { SAMPLES, SHARED_SAMPLES } from './samples.ts';
import { ThemeError } from './theme-error.ts';
import { strictly } from './strict-values.ts';
import { findTemplates, type Render } from './templates.ts';

export type ThemeParts = {
  theme: string;
  own: string;
  ownMessages: Map<string, MessageFile>;
  themeMessages: Map<string, MessageFile>;
  languages: Languages;
  render: Render;
  /** What every page is told besides its own values. */
  always: object;
};

/** Whatever makes a theme unusable is an error about the theme. */
export function explained<T>(theme: string, open: () => T): T {
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

/** Throws an error with everything that is wrong, a line each. */
export function refuseBrokenTheme(parts: ThemeParts): void {
  const { theme, own, ownMessages, themeMessages } = parts;
  const mistakes = [
    ...strayFiles(theme, own),
    ...messageMistakes(themeMessages, ownMessages.get('en') ?? new Map()),
  ];
  const all = mistakes.length > 0 ? mistakes : renderingMistakes(parts);
  if (all.length > 0) throw new ThemeError(all);
}

const FILES =
  /^(logo(-dark)?\.(svg|png|webp|jpg)|colours\.css|assets\/(style\.css|icon\.svg)|partials\/.*\.ejs|.*\.md|(assets|console|partials|messages))$/;

/** A misspelt name would quietly change nothing. */
function strayFiles(theme: string, own: string): string[] {
  const views = new Set([...findTemplates([own]).keys()].map((name) => `${name}.ejs`));
  const files = readdirSync(theme, { recursive: true, encoding: 'utf8' });
  const isText = (file: string) => file.startsWith(TEXTS);
  const isKnown = (file: string) =>
    FILES.test(file) ||
    views.has(file) ||
    basename(file).startsWith('.') ||
    (isText(file) && isMessageFile(file.slice(TEXTS.length)));
  return files
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => !isKnown(file))
    .map((file) => `${join(theme, file)}: ${isText(file) ? NO_LANGUAGE : NO_PLACE}`);
}

const TEXTS = 'messages/';
const NO_LANGUAGE = 'texts are named by the tag of their language, such as de.yaml or pt-BR.yaml';
const NO_PLACE = 'there is no page or part of this name to take the place of';

type Renderings = Pick<ThemeParts, 'languages' | 'render' | 'always'>;

/** Every page with every sample in every language, and nothing asked for that is not there. */
function renderingMistakes({ languages, render, always }: Renderings): string[] {
  const found = languages.names.flatMap((language) => {
    const speech = strictSpeech(languages.speak([language]));
    return Object.entries(SAMPLES).flatMap(([name, { view, values }]) => {
      const known = [...valuesOf(view), ...SHARED_SAMPLES, speech];
      try {
        render(view, { ...values, ...always, ...speech }, (given) => strictly(given, known));
        return [];
      } catch (error) {
        return [`${(error as Error).message.trim()} (the page ${name}, in ${language})`];
      }
    });
  });
  return found.slice(0, MOST_MISTAKES);
}

/** A broken partial breaks every page in every language. */
const MOST_MISTAKES = 3;

function valuesOf(view: string): object[] {
  return Object.values(SAMPLES).flatMap((sample) => (sample.view === view ? [sample.values] : []));
}
