// Decides which permission level a resource or a prompt of an upstream needs, by the entries of the settings.
import { highestLevel, isAtLeast, type Level, type Levels } from '../permission-levels.ts';
import { foldName, UNSAFE } from './fold-name.ts';

/** `text` is a URI, a URI template or a name; in a pattern, `*` stands for any characters. */
export type LevelEntry = { text: string; level: Level };

export type PatternLevels = {
  /** Those of the entries. */
  levels: readonly Level[];
  /** Returns the level that this resource or prompt needs. */
  levelOf: (given: unknown) => Level;
};

/** Longer ones need the highest level, because comparing them is slow. */
const MAX_LENGTH = 8192;

type Options = {
  levels: Levels;
  defaultLevel: Level;
  /** Other spellings of the text that an upstream may take for the same. */
  spellings: (text: string) => string[];
  /** Whether a text always needs the highest level. */
  isUnsafe: (text: string) => boolean;
};

export function resourceLevels(
  levels: Levels,
  defaultLevel: Level,
  entries: readonly LevelEntry[],
): PatternLevels {
  const isUnsafe = (uri: string) => UNSAFE.test(uri) || hasDotSegment(uri);
  return patternLevels({ levels, defaultLevel, spellings: spellingsOfUri, isUnsafe }, entries);
}

export function promptLevels(
  levels: Levels,
  defaultLevel: Level,
  entries: readonly LevelEntry[],
): PatternLevels {
  const spellings = (name: string) => [foldName(name)];
  const isUnsafe = (name: string) => UNSAFE.test(name);
  return patternLevels({ levels, defaultLevel, spellings, isUnsafe }, entries);
}

/**
 * An entry without `*` wins, then the highest level of the patterns that match. An upstream that compares less strictly could serve another
 * spelling of a text, so what matches that raises the level, and never lowers it.
 */
function patternLevels(
  { levels, defaultLevel, spellings, isUnsafe }: Options,
  entries: readonly LevelEntry[],
): PatternLevels {
  const compiled = entries.map(({ text, level }) => ({
    level,
    exact: text.includes('*') ? undefined : text,
    matches: globMatcher(text, (part) => part),
    matchesSpelling: globMatcher(text, (part) => spellings(part)[0] ?? part),
  }));
  const highest = (found: readonly Level[]) =>
    found.reduce<Level | undefined>(
      (high, level) => (high && isAtLeast(levels, high, level) ? high : level),
      undefined,
    );
  return {
    levels: entries.map(({ level }) => level),
    levelOf(given) {
      if (given === undefined || entries.length === 0) return defaultLevel;
      // An upstream could read a list with one text as the text.
      if (typeof given !== 'string' || given.length > MAX_LENGTH || isUnsafe(given))
        return highestLevel(levels);
      const exact = compiled.find((entry) => entry.exact === given);
      if (exact) return exact.level;
      const byText = compiled.filter(({ matches }) => matches(given));
      const others = spellings(given);
      const bySpelling = compiled.filter(({ matchesSpelling }) => others.some(matchesSpelling));
      const own = highest(byText.map(({ level }) => level)) ?? defaultLevel;
      return highest([own, ...bySpelling.map(({ level }) => level)]) ?? own;
    },
  };
}

/** Takes time in proportion to the length of the text, unlike a regular expression. */
export function globMatcher(
  pattern: string,
  spell: (part: string) => string,
): (text: string) => boolean {
  const [first = '', ...rest] = pattern.split('*').map(spell);
  const last = rest.pop();
  if (last === undefined) return (text) => text === first;
  return (text) => {
    if (!text.startsWith(first) || !text.endsWith(last)) return false;
    let from = first.length;
    for (const part of rest) {
      const at = text.indexOf(part, from);
      if (at < 0) return false;
      from = at + part.length;
    }
    return from <= text.length - last.length;
  };
}

/** As text, percent-decoded, and as URL parsers write it, which lower-case the host and drop the default port. */
export function spellingsOfUri(uri: string): string[] {
  const { href } = URL.parse(uri) ?? {};
  return [uri, ...(href === undefined ? [] : [href])].map((text) => foldName(percentDecoded(text)));
}

const MAX_DECODINGS = 5;

/** Until nothing is left to decode: some servers decode twice. */
function percentDecoded(text: string): string {
  let decoded = text;
  for (let round = 0; round < MAX_DECODINGS && decoded.includes('%'); round += 1)
    decoded = decoded.replace(/(%[\da-f]{2})+/gi, (encoded) =>
      Buffer.from(encoded.replaceAll('%', ''), 'hex').toString('utf8'),
    );
  return decoded;
}

/** `.` and `..` (RFC 3986 section 5.2.4), which resolve to another path. Also with `\`, and with parameters after `;`. */
export function hasDotSegment(uri: string): boolean {
  const path = foldName(percentDecoded(uri)).replace(/^[a-z][\w+.-]*:/, '');
  return path.split(/[/\\?#]/).some((segment) => /^\.{1,2}(;|$)/.test(segment));
}
