// The texts about the permission levels: those of the theme, else of the settings, else of the sample, else a neutral title.
import { join } from 'node:path';
import {
  isLevel,
  type Level,
  type LevelDefinition,
  type Levels,
  type LocalizedText,
} from '../permission-levels.ts';
import { PACKAGE_FOLDER } from '../package-folder.ts';
import type { Settings } from '../settings/settings.ts';
import {
  FALLBACK_LANGUAGE,
  lazyFiles,
  levelOfText,
  type MessageFile,
  type MessageFiles,
  openMessageFiles,
  readMessageFiles,
  titleKey,
} from './messages.ts';

const PARTS = ['title', 'sees', 'hidden', 'example'] as const;
/** Has the value `level`. */
const NEUTRAL_TITLE = 'neutralLevel';

/** `keys` are texts that a theme has in some languages, and `languages` those that show `instead`. */
export type PartialTexts = {
  keys: string[];
  languages: string[];
  instead: 'the sample' | 'another language';
};

/** `unknown`: levels that the theme describes and the settings lack. `untitled`: levels of the settings without a title. */
export type LevelTextMismatch = { unknown: Level[]; untitled: Level[]; partial: PartialTexts[] };

/** Compares the operator's texts with the levels of the settings. The first two lists are empty if the sample serves calls. */
export function levelTextMismatch({
  levels,
  upstreams,
  theme,
}: Pick<Settings, 'levels' | 'upstreams' | 'theme'>): LevelTextMismatch {
  const files = theme === undefined ? new Map() : readMessageFiles(join(theme, 'messages'));
  const partial = partialTexts(levels, files, upstreams.length === 0);
  if (upstreams.length === 0) return { unknown: [], untitled: [], partial };
  const hasTitle = (id: Level) => [...files.values()].some((file) => file.has(titleKey(id)));
  const untitled = levels.filter(({ id, title }) => title === undefined && !hasTitle(id));
  return {
    unknown: [...levelsWithTexts(files)].filter((id) => !isLevel(levels, id)),
    untitled: untitled.map(({ id }) => id),
    partial,
  };
}

const OWN_MESSAGES = join(PACKAGE_FOLDER, 'views/messages');

/** Texts that the settings have are in every language. */
function partialTexts(
  levels: Levels,
  theme: Map<string, MessageFile>,
  describesSample: boolean,
): PartialTexts[] {
  if (levelsWithTexts(theme).size === 0) return [];
  const own = openMessageFiles(OWN_MESSAGES);
  const languages = [...new Set([...own.keys(), ...theme.keys()])].sort();
  const sample = describesSample ? own.get(FALLBACK_LANGUAGE) : undefined;
  const found = levels.flatMap((level) =>
    PARTS.filter((part) => level[part] === undefined).flatMap((part) => {
      const key = `levels.${level.id}.${part}`;
      const has = (language: string) => theme.get(language)?.has(key) ?? false;
      const lacking = languages.filter((name) => !has(name) && !has(name.split('-', 1)[0] ?? ''));
      if (lacking.length === 0 || ![...theme.keys()].some(has)) return [];
      const instead = sample?.has(key) ? 'the sample' : 'another language';
      return [{ key, languages: lacking, instead } as const];
    }),
  );
  const groups = Map.groupBy(found, (text) => `${text.instead} ${text.languages.join()}`);
  return [...groups.values()].flatMap((texts) =>
    texts.slice(0, 1).map(({ languages: lacking, instead }) => ({
      keys: texts.map(({ key }) => key),
      languages: lacking,
      instead,
    })),
  );
}

/** Returns the ids of the levels that the files have texts about. */
function levelsWithTexts(files: Map<string, MessageFile>): Set<string> {
  const keys = [...files.values()].flatMap((file) => [...file.keys()]);
  return new Set(keys.flatMap((key) => levelOfText(key) ?? []));
}

/** Returns the files without texts about levels. */
export function withoutLevelTexts(files: MessageFiles): MessageFiles {
  return lazyFiles(files.keys(), (language) => {
    const texts = [...(files.get(language) ?? [])];
    return new Map(texts.filter(([key]) => levelOfText(key) === undefined));
  });
}

export type LevelTextSources = { levels: Levels; own: MessageFiles; theme: MessageFiles };

/**
 * Returns a text for every level of the settings in every language. Where a language has none, another language of the same source replaces it,
 * because only the operator knows what a level opens. `describesSample`: our own texts, which describe the sample, count.
 */
export function levelTexts(
  { levels, own, theme }: LevelTextSources,
  describesSample: boolean,
): MessageFiles {
  const languages = new Set([...own.keys(), ...theme.keys()]);
  return lazyFiles(
    languages,
    (language) =>
      new Map(
        levels.flatMap((level) =>
          PARTS.flatMap((part) => {
            const key = `levels.${level.id}.${part}`;
            const texts = {
              ...(describesSample ? textsIn(own, key, fallbacksOf(language)) : {}),
              ...settingsTexts(level[part], languages),
              ...textsIn(theme, key, theme.keys()),
            };
            const text = inLanguage(texts, language) ?? neutralText(own, level, part, language);
            return text === undefined ? [] : [[key, { text, place: 'the settings' }] as const];
          }),
        ),
      ),
  );
}

type Texts = Readonly<Record<string, string>>;

function textsIn(files: MessageFiles, key: string, languages: Iterable<string>): Texts {
  return Object.fromEntries(
    [...languages].flatMap((language) => {
      const text = files.get(language)?.get(key)?.text;
      return text === undefined ? [] : [[language, text]];
    }),
  );
}

/** One text is for all languages, so that it also replaces every text of the sample. */
function settingsTexts(text: LocalizedText | undefined, languages: ReadonlySet<string>): Texts {
  if (text === undefined) return {};
  const texts =
    typeof text === 'string'
      ? [...languages].map((language) => [language, text] as const)
      : [...languages].map((language) => [language, inLanguage(text, language) ?? ''] as const);
  return Object.fromEntries(texts.map(([language, literal]) => [language, escaped(literal)]));
}

/** ICU MessageFormat would read these characters as syntax. */
function escaped(literal: string): string {
  return literal
    .replaceAll("'", "''")
    .replaceAll(/[{}<'>]*[{}<>][{}<'>]*/g, (characters) => `'${characters}'`);
}

/** Looks up the language, then less specific ones, then English, then any. */
function inLanguage(texts: Texts, language: string): string | undefined {
  const found = fallbacksOf(language).find((name) => texts[name] !== undefined);
  return found === undefined ? Object.values(texts).at(0) : texts[found];
}

/** Every one of our own texts is in one of these languages. */
function fallbacksOf(language: string): string[] {
  const [general = language] = language.split('-');
  return [language, general, FALLBACK_LANGUAGE];
}

function neutralText(
  own: MessageFiles,
  { id }: LevelDefinition,
  part: (typeof PARTS)[number],
  language: string,
): string | undefined {
  if (part !== 'title') return undefined;
  return inLanguage(textsIn(own, NEUTRAL_TITLE, fallbacksOf(language)), language)?.replace(
    '{level}',
    id,
  );
}
