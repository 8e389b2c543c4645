// Lists of patterns that say what a connector, machine, minted token or entitlement opens of an MCP server. Pure: no I/O.
import { foldName, UNSAFE } from './fold-name.ts';
import { globMatcher, hasDotSegment, spellingsOfUri } from './pattern-levels.ts';

/**
 * What a request is about. `isListed` is false for a tool that the server is not known to list. `method`: a request about no tool, resource or
 * prompt. `unclear`: a server could read it as one about any.
 */
export type Item =
  | { kind: 'tool'; name: string; isListed: boolean }
  | { kind: 'resource'; name: string }
  | { kind: 'prompt'; name: string }
  | { kind: 'method' }
  | { kind: 'unclear' };

export const NAMED_KINDS = ['tool', 'resource', 'prompt'] as const;
export type NamedKind = (typeof NAMED_KINDS)[number];

export type ToolList = {
  patterns: readonly string[];
  /** The patterns as one text, which tells lists apart. */
  text: string;
  opens: (item: Item) => boolean;
};

type Pattern = { isExclusion: boolean; kind: NamedKind; text: string };

function parsePattern(pattern: string): Pattern {
  const [, exclusion = '', prefix = '', text = ''] =
    /^(!?)(?:(resource|prompt):)?(.*)$/s.exec(pattern) ?? [];
  const kind = prefix === 'resource' || prefix === 'prompt' ? prefix : 'tool';
  return { isExclusion: exclusion !== '', kind, text };
}

const compiled = new WeakMap<readonly string[], ToolList>();

/** Compiles a list once. */
export function toolList(patterns: readonly string[]): ToolList {
  const known = compiled.get(patterns);
  if (known) return known;
  const list = compile(patterns);
  compiled.set(patterns, list);
  return list;
}

/** Longer names and URIs match no pattern, because comparing them is slow. */
const MAX_LENGTHS: Record<NamedKind, number> = { tool: 512, resource: 8192, prompt: 8192 };

/**
 * A list of exclusions alone opens everything else. What is named is compared as text. What is taken out is also taken out in spellings that a
 * server may take for the same, unless the server lists a tool of exactly this name.
 */
function compile(patterns: readonly string[]): ToolList {
  const parsed = patterns.map(parsePattern);
  const inclusions = parsed.filter(({ isExclusion }) => !isExclusion);
  const exclusions = parsed.filter(({ isExclusion }) => isExclusion);
  const isIncluded = matcherByKind(inclusions, (text) => text);
  const isExcluded = matcherByKind(exclusions, (text) => text);
  const isExcludedSpelling = matcherByKind(exclusions, (text, kind) =>
    kind === 'resource' ? (spellingsOfUri(text)[0] ?? text) : foldName(text),
  );
  const opensAll = inclusions.length === 0;
  return {
    patterns,
    text: JSON.stringify(patterns),
    opens(item) {
      if (item.kind === 'unclear') return false;
      if (item.kind === 'method') return opensAll;
      const { kind, name } = item;
      if (name.length > MAX_LENGTHS[kind] || isUnsafe(item)) return false;
      if (!opensAll && !isIncluded[kind](name)) return false;
      if (isExcluded[kind](name)) return false;
      if (exclusions.length === 0 || (item.kind === 'tool' && item.isListed)) return true;
      const spellings = kind === 'resource' ? spellingsOfUri(name) : [foldName(name)];
      return !spellings.some(isExcludedSpelling[kind]);
    },
  };
}

/** A server could cut a name that it does not list, or resolve a URI to another. */
function isUnsafe(item: Extract<Item, { name: string }>): boolean {
  if (item.kind === 'tool') return !item.isListed && UNSAFE.test(item.name);
  return UNSAFE.test(item.name) || (item.kind === 'resource' && hasDotSegment(item.name));
}

type Matchers = Record<NamedKind, (text: string) => boolean>;

/** Each kind is compiled when it is first asked for: most lists are about tools alone. */
function matcherByKind(
  patterns: readonly Pattern[],
  spell: (text: string, kind: NamedKind) => string,
): Matchers {
  const compileKind = (kind: NamedKind) => {
    const texts = patterns.filter((pattern) => pattern.kind === kind).map(({ text }) => text);
    const exact = new Set(
      texts.filter((text) => !text.includes('*')).map((text) => spell(text, kind)),
    );
    const globs = texts
      .filter((text) => text.includes('*'))
      .map((text) => globMatcher(text, (part) => spell(part, kind)));
    return (text: string) => exact.has(text) || globs.some((matches) => matches(text));
  };
  const matcher = (kind: NamedKind) => {
    let compiledKind: ((text: string) => boolean) | undefined;
    return (text: string) => (compiledKind ??= compileKind(kind))(text);
  };
  return { tool: matcher('tool'), resource: matcher('resource'), prompt: matcher('prompt') };
}

/** A list that opens nothing that one of these does not open. It may open less than both do. */
export function narrowerTools(one: readonly string[], other: readonly string[]): string[] {
  const [ofOne, ofOther] = [one, other].map((list) => list.filter((text) => !isExclusion(text)));
  const exclusions = new Set([...one, ...other].filter(isExclusion));
  if (!ofOne?.length || !ofOther?.length)
    return [...(ofOne ?? []), ...(ofOther ?? []), ...exclusions];
  const common = new Set([...within(ofOne, ofOther), ...within(ofOther, ofOne)]);
  const [first = ''] = ofOne;
  // What is named and taken out opens nothing; without anything that is named, all the rest would be open.
  return common.size > 0 ? [...common, ...exclusions] : [first, `!${first}`];
}

function isExclusion(pattern: string): boolean {
  return parsePattern(pattern).isExclusion;
}

/** Those that open only what the others open. */
function within(patterns: readonly string[], others: readonly string[]): string[] {
  const matches = matcherByKind(others.map(parsePattern), (text) => text);
  return patterns.filter((pattern) => {
    const { kind, text } = parsePattern(pattern);
    return others.includes(pattern) || matches[kind](text);
  });
}

/**
 * Whether `list` is certain to open everything of these kinds that `other` opens. Compares patterns, so it is false for some lists that do.
 * An empty list opens everything.
 */
export function opensAllOf(
  list: readonly string[],
  other: readonly string[],
  kinds: readonly NamedKind[],
): boolean {
  const split = (patterns: readonly string[]) => {
    const parsed = patterns.map(parsePattern);
    const ofKinds = parsed.filter(({ kind }) => kinds.includes(kind));
    return {
      opensAll: parsed.every(({ isExclusion }) => isExclusion),
      inclusions: ofKinds.filter(({ isExclusion }) => !isExclusion),
      exclusions: ofKinds.filter(({ isExclusion }) => isExclusion),
    };
  };
  const [own, others] = [split(list), split(other)];
  const isExcluded = matcherByKind(others.exclusions, (text) => text);
  if (!own.exclusions.every(({ kind, text }) => isExcluded[kind](text))) return false;
  if (own.opensAll) return true;
  const isIncluded = matcherByKind(own.inclusions, (text) => text);
  const opened = others.opensAll ? kinds.map((kind) => ({ kind, text: '*' })) : others.inclusions;
  return opened.every(({ kind, text }) => isIncluded[kind](text));
}

/** The patterns about tools that match none of these, whether they name or take out. */
export function unmatchedPatterns(patterns: readonly string[], names: readonly string[]): string[] {
  return patterns.filter((pattern) => {
    const { kind, text } = parsePattern(pattern);
    if (kind !== 'tool') return false;
    const matches = globMatcher(text, (part) => part);
    return !names.some(matches);
  });
}

/** Whether tools that the server gets later can be open too. */
export function opensLaterTools(patterns: readonly string[]): boolean {
  const parsed = patterns.map(parsePattern);
  return (
    parsed.every(({ isExclusion }) => isExclusion) ||
    parsed.some(
      ({ isExclusion, kind, text }) => !isExclusion && kind === 'tool' && text.includes('*'),
    )
  );
}
