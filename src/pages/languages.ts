import { IntlMessageFormat } from 'intl-messageformat';
import type Koa from 'koa';
import { requestContext } from '../http/request-context.ts';
import { lruCache } from '../lru-cache.ts';
import { FALLBACK_LANGUAGE, type MessageFiles, TAGS, titleKey } from './messages.ts';

/** A part of a text that is set apart. `tag` is one of `TAGS`; `href` makes it a link. */
export type MarkedPart = { tag: string; text: string; href?: string };
export type Part = string | MarkedPart;

/** A marked part as a value stays marked, and selects `other`. */
export type MessageValues = Record<string, string | number | MarkedPart>;

type Translate = (key: string, values?: MessageValues) => string;
type TranslateMarked = (key: string, values?: MessageValues) => Part[];

/** The texts and formats of one language (ICU MessageFormat). */
export type Translator = {
  language: string;
  direction: string;
  /** Returns the text without its tags, or the key if there is no such text. */
  t: Translate;
  /** Returns the text in parts, for `partials/text`. */
  tMarked: TranslateMarked;
  /** Earlier names of `t` and `tMarked`, for themes. */
  say: Translate;
  mark: TranslateMarked;
  /** Whether there is such a text. */
  has: (key: string) => boolean;
  /** Returns the title of a level, or its id if the settings no longer have it. */
  levelTitle: (level: string) => string;
  /** Formats seconds in the largest unit that divides them: "90 days". In the nominative, in languages with cases. */
  duration: (seconds: number) => string;
  /** Joins parts of a sentence: "your name and email address". */
  list: (parts: readonly string[]) => string;
  /** Formats the day of a time in seconds since the epoch. */
  date: (time: number) => string;
  /**
   * Formats a time in seconds since the epoch, compared with now: "5 minutes ago", "yesterday", and beyond six days "Jan 31, 2030". `day`: never
   * nearer than a day, for times that are known roughly ("today"). `second`: always "Jan 31, 2030, 3:04:05 PM UTC". Days are those of UTC.
   */
  time: (time: number, precision?: 'day' | 'second') => FormattedTime;
};

/** For `partials/time`: as in ISO 8601, in full with its time zone, and short. */
export type FormattedTime = { iso: string; exact: string; text: string };

/** Returns seconds since the epoch. */
export type Clock = () => number;

export type Languages = {
  names: string[];
  /** Returns the translator for the first of these languages that is available, or for English. */
  translator: (preferred: readonly string[]) => Translator;
};

const MAX_PREFERRED = 20;
const MAX_TAG_LENGTH = 35;

/** `ui_locales` (OpenID Connect Core section 3.1.2.1), then `Accept-Language`. */
export function preferredLanguages(ctx: Koa.Context): string[] {
  const requested: unknown = requestContext(ctx).uiLocales ?? ctx.query.ui_locales;
  const locales = typeof requested === 'string' ? requested.split(' ', MAX_PREFERRED) : [];
  return [...locales, ...ctx.acceptsLanguages().slice(0, MAX_PREFERRED)];
}

/** Texts of later directories replace those of earlier ones. A missing text is in English. Reads a language when it is first needed. */
export function openLanguages(
  directories: readonly MessageFiles[],
  now: Clock = () => Date.now() / 1000,
): Languages {
  const names = [...new Set(directories.flatMap((files) => [...files.keys()]))].sort();
  if (!names.includes(FALLBACK_LANGUAGE))
    throw new Error(`there is no message file ${FALLBACK_LANGUAGE}.yaml`);
  const translators = new Map<string, Translator>();
  return {
    names,
    translator(preferred) {
      const name = chooseLanguage(names, preferred);
      const translator =
        translators.get(name) ?? createTranslator(name, textsOf(directories, name), now);
      translators.set(name, translator);
      return translator;
    },
  };
}

/** Looks up each preferred tag, then less specific ones: `de` serves `de-AT` (RFC 4647 section 3.4). */
function chooseLanguage(available: readonly string[], preferred: readonly string[]): string {
  const known = new Map(available.map((language) => [language.toLowerCase(), language]));
  for (const tag of preferred.filter(({ length }) => length <= MAX_TAG_LENGTH)) {
    for (const range of lookupRanges(tag.toLowerCase())) {
      const found = known.get(range);
      if (found !== undefined) return found;
    }
  }
  return FALLBACK_LANGUAGE;
}

/** `pt-pt`, then `pt`. */
function lookupRanges(tag: string): string[] {
  const subtags = tag.split('-');
  return subtags.map((_, index) => subtags.slice(0, subtags.length - index).join('-'));
}

/** A regional language falls back to its general language, then to English. */
function textsOf(directories: readonly MessageFiles[], language: string): Map<string, string> {
  const chain = [FALLBACK_LANGUAGE, ...lookupRanges(language).toReversed()];
  const files = chain.flatMap((name) => directories.flatMap((all) => all.get(name) ?? []));
  return new Map(files.flatMap((file) => [...file].map(([key, { text }]) => [key, text] as const)));
}

const MARKERS = Object.fromEntries(
  TAGS.map((tag) => [tag, (chunks: Part[]) => ({ tag, text: textOf(chunks) })]),
);

function textOf(parts: Part[]): string {
  return parts.map((part) => (typeof part === 'string' ? part : part.text)).join('');
}

/** More than our own texts in all languages. */
const MAX_FORMATS = 5000;

/** Parsed texts by language. Most texts are the same in the theme check and at each start in this process. */
const formats = lruCache<IntlMessageFormat>(MAX_FORMATS);

function formatOf(language: string, text: string): IntlMessageFormat {
  const key = `${language} ${text}`;
  const format = formats.get(key) ?? new IntlMessageFormat(text, language);
  formats.set(key, format);
  return format;
}

/** What a text with values, tags or quoting has. Others are shown as they are. */
const SYNTAX = /[{}<>']/;

function createTranslator(language: string, texts: Map<string, string>, now: Clock): Translator {
  const tMarked: TranslateMarked = (key, values = {}) => {
    const text = texts.get(key);
    if (text === undefined) return [key];
    if (!SYNTAX.test(text)) return [text];
    return [formatOf(language, text).format<Part>({ ...values, ...MARKERS })].flat();
  };
  const t: Translate = (key, values) => textOf(tMarked(key, values));
  const day = new Intl.DateTimeFormat(language, { dateStyle: 'long', timeZone: 'UTC' });
  return {
    language,
    direction: directionOf(language),
    t,
    tMarked,
    say: t,
    mark: tMarked,
    has: (key) => texts.has(key),
    levelTitle: (level) => (texts.has(titleKey(level)) ? t(titleKey(level)) : level),
    duration: durationFormat(language),
    list: (parts) => new Intl.ListFormat(language).format(parts),
    date: (time) => day.format(time * 1000),
    time: timeFormat(language, now),
  };
}

/** `getTextInfo` is part of ECMA-402, and missing in TypeScript's types. */
function directionOf(language: string): string {
  const locale = new Intl.Locale(language) as { getTextInfo?: () => { direction: string } };
  return locale.getTextInfo?.().direction ?? 'ltr';
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Farther times are shown as a date. */
const MAX_RELATIVE_DAYS = 6;

function timeFormat(language: string, now: Clock): Translator['time'] {
  const full = { dateStyle: 'long', timeStyle: 'long', timeZone: 'UTC' } as const;
  const exact = new Intl.DateTimeFormat(language, full);
  const day = new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeZone: 'UTC' });
  const relative = new Intl.RelativeTimeFormat(language, { numeric: 'auto' });
  const second = new Intl.DateTimeFormat(language, {
    dateStyle: 'medium',
    timeStyle: 'long',
    timeZone: 'UTC',
  });
  const textOf = (time: number, precision?: 'day' | 'second'): string => {
    if (precision === 'second') return second.format(time * 1000);
    const current = now();
    const distance = time - current;
    const days = Math.floor(time / DAY) - Math.floor(current / DAY);
    if (Math.abs(days) > MAX_RELATIVE_DAYS) return day.format(time * 1000);
    if (precision === 'day' || Math.abs(distance) >= DAY) return relative.format(days, 'day');
    if (Math.abs(distance) < MINUTE) return relative.format(0, 'second');
    return Math.abs(distance) < HOUR
      ? relative.format(Math.trunc(distance / MINUTE), 'minute')
      : relative.format(Math.trunc(distance / HOUR), 'hour');
  };
  return (time, precision) => ({
    iso: new Date(time * 1000).toISOString(),
    exact: exact.format(time * 1000),
    text: textOf(time, precision),
  });
}

/** Keeps a number and its unit on one line. */
const NO_BREAK_SPACE = '\u00A0';

const UNITS: [string, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

function durationFormat(language: string): Translator['duration'] {
  const formats = new Map<string, Intl.NumberFormat>();
  const formatOf = (unit: string) => {
    const options = { style: 'unit', unit, unitDisplay: 'long' } as const;
    const format = formats.get(unit) ?? new Intl.NumberFormat(language, options);
    formats.set(unit, format);
    return format;
  };
  return (seconds) => {
    const [unit, size] = UNITS.find(
      ([, candidate]) => seconds % candidate === 0 && seconds >= candidate,
    ) ?? ['second', 1];
    return formatOf(unit)
      .format(seconds / size)
      .replaceAll(/\s/g, NO_BREAK_SPACE);
  };
}
