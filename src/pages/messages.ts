// What a page can say in a language: texts with values in them (ICU MessageFormat), durations and dates.
import { IntlMessageFormat } from 'intl-messageformat';
import { chooseLanguage, FALLBACK, widening } from './languages.ts';
import { type MessageFile, TAGS } from './message-files.ts';

/** A part of a text: as it is, or marked with one of the tags. */
export type Part = string | { tag: string; text: string };

export type MessageValues = Record<string, string | number>;

export type Speech = {
  language: string;
  direction: string;
  /** The text as it is, without its tags; the key when there is no such text. */
  say: (key: string, values?: MessageValues) => string;
  /** The text in parts, for `partials/text`. */
  mark: (key: string, values?: MessageValues) => Part[];
  /** Whether there is such a text. */
  has: (key: string) => boolean;
  /** Seconds in the largest unit that divides them: "90 days". In German and the like in the case of "it lasts". */
  duration: (seconds: number) => string;
  /** A day, of seconds since 1970. */
  date: (time: number) => string;
};

export type Languages = { names: string[]; speak: (wishes: readonly string[]) => Speech };

/** Files of later directories take the place of earlier ones, text by text; what is missing is said in English. */
export function openLanguages(directories: readonly Map<string, MessageFile>[]): Languages {
  const names = [...new Set(directories.flatMap((files) => [...files.keys()]))].sort();
  const speeches = new Map(names.map((name) => [name, speech(name, textsOf(directories, name))]));
  return {
    names,
    speak: (wishes) => speeches.get(chooseLanguage(names, wishes)) ?? requireEnglish(speeches),
  };
}

function requireEnglish(speeches: Map<string, Speech>): Speech {
  const english = speeches.get(FALLBACK);
  if (english) return english;
  throw new Error(`there is no message file ${FALLBACK}.yaml`);
}

/** Of a regional language, what its general one says comes before English. */
function textsOf(
  directories: readonly Map<string, MessageFile>[],
  language: string,
): Map<string, string> {
  const chain = [FALLBACK, ...widening(language).toReversed()];
  const files = chain.flatMap((name) => directories.flatMap((files) => files.get(name) ?? []));
  return new Map(files.flatMap((file) => [...file].map(([key, { text }]) => [key, text] as const)));
}

const MARKS = Object.fromEntries(
  TAGS.map((tag) => [tag, (chunks: Part[]) => ({ tag, text: textOf(chunks) })]),
);

/** The same, but it refuses texts that there are not, instead of saying their key. */
export function strictSpeech(speech: Speech): Speech {
  const required = (key: string): string => {
    if (speech.has(key)) return key;
    throw new Error(`there is no text called ${key}`);
  };
  return {
    ...speech,
    say: (key, values) => speech.say(required(key), values),
    mark: (key, values) => speech.mark(required(key), values),
  };
}

function textOf(parts: Part[]): string {
  return parts.map((part) => (typeof part === 'string' ? part : part.text)).join('');
}

function speech(language: string, texts: Map<string, string>): Speech {
  const formats = new Map<string, IntlMessageFormat>();
  const formatOf = (key: string) => {
    const known = formats.get(key) ?? new IntlMessageFormat(texts.get(key) ?? key, language);
    formats.set(key, known);
    return known;
  };
  const mark = (key: string, values: MessageValues = {}): Part[] =>
    texts.has(key) ? [formatOf(key).format<Part>({ ...values, ...MARKS })].flat() : [key];
  const day = new Intl.DateTimeFormat(language, { dateStyle: 'long', timeZone: 'UTC' });
  return {
    language,
    direction: directionOf(language),
    mark,
    say: (key, values) => textOf(mark(key, values)),
    has: (key) => texts.has(key),
    duration: durationsIn(language),
    date: (time) => day.format(time * 1000),
  };
}

/** Part of ECMA-402 that the compiler does not know yet. */
function directionOf(language: string): string {
  const locale = new Intl.Locale(language) as { getTextInfo?: () => { direction: string } };
  return locale.getTextInfo?.().direction ?? 'ltr';
}

/** A number and its unit stay on one line. */
const NO_BREAK = '\u00A0';

const UNITS: [string, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

function durationsIn(language: string): Speech['duration'] {
  const formats = new Map<string, Intl.NumberFormat>();
  const formatOf = (unit: string) => {
    const options = { style: 'unit', unit, unitDisplay: 'long' } as const;
    const known = formats.get(unit) ?? new Intl.NumberFormat(language, options);
    formats.set(unit, known);
    return known;
  };
  return (seconds) => {
    const [unit, size] = UNITS.find(
      ([, candidate]) => seconds % candidate === 0 && seconds >= candidate,
    ) ?? ['second', 1];
    return formatOf(unit)
      .format(seconds / size)
      .replaceAll(/\s/g, NO_BREAK);
  };
}
