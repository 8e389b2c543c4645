// What changed in a tool, and what of it deserves suspicion: an app shows every text of a tool to its model.
import { isObject } from '../json-values.ts';
import type { toolChangeSeverities } from '../observability/labels.ts';
import { nameForModels } from './tool-digest.ts';

export const SUSPICIONS = [
  'hidden_characters',
  'similar_name',
  'weaker_hint',
  'addresses_model',
  'new_required',
] as const;
export type Suspicion = (typeof SUSPICIONS)[number];

export type Severity = (typeof toolChangeSeverities)[number];

/** Texts have their invisible characters written out. `path` is a JSON pointer (RFC 6901) into the tool. */
export type Difference = {
  path: string;
  before?: string;
  after?: string;
  suspicion?: Suspicion;
};

export type Comparison = { severity: Severity; differences: Difference[] };

const MAX_DIFFERENCES = 100;
const MAX_TEXT_LENGTH = 2000;

/** `before` is absent for a new tool, `after` for a removed one. Suspicious differences come first. `similarTo` knows the names of all tools. */
export function compareTool(
  before: unknown,
  after: unknown,
  similarTo: SimilarName = () => undefined,
): Comparison {
  const found: Difference[] = [];
  // What is new has nothing to compare with, member by member.
  if (after !== undefined) collect({ found, isNew: before === undefined }, '', before, after);
  const { name } = isObject(after) ? after : {};
  const similar = before === undefined && typeof name === 'string' ? similarTo(name) : undefined;
  const all: Difference[] =
    similar === undefined || typeof name !== 'string'
      ? found
      : [
          {
            path: '/name',
            before: visible(similar),
            after: visible(name),
            suspicion: 'similar_name',
          },
          ...found,
        ];
  const differences = [
    ...all.filter(({ suspicion }) => suspicion !== undefined),
    ...all.filter(({ suspicion }) => suspicion === undefined),
  ].slice(0, MAX_DIFFERENCES);
  return { severity: differences[0]?.suspicion ? 'alert' : 'note', differences };
}

/** Returns another name that a model reads as the same. */
export type SimilarName = (name: string) => string | undefined;

export function similarNames(names: Iterable<string>): SimilarName {
  const byModelName = Map.groupBy(names, nameForModels);
  return (name) => byModelName.get(nameForModels(name))?.find((other) => other !== name);
}

type Collected = { found: Difference[]; isNew: boolean };

function collect(all: Collected, path: string, before: unknown, after: unknown): void {
  if (isObject(after) && (isObject(before) || before === undefined)) {
    const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after)]);
    for (const name of names)
      collectMember(all, `${path}/${pointerPart(name)}`, name, before?.[name], after[name]);
    return;
  }
  if (Array.isArray(after) && Array.isArray(before) && [...after, ...before].some(isObject)) {
    for (let n = 0; n < Math.max(before.length, after.length); n += 1)
      collect(all, `${path}/${n}`, before[n], after[n]);
    return;
  }
  const [old, now] = [JSON.stringify(before), JSON.stringify(after)];
  if (old === now) return;
  const suspicion = suspicionOf(path, before, after, all.isNew);
  all.found.push({
    path: visible(path),
    ...(before === undefined ? {} : { before: shown(before) }),
    ...(after === undefined ? {} : { after: shown(after) }),
    ...(suspicion ? { suspicion } : {}),
  });
}

function collectMember(
  all: Collected,
  path: string,
  name: string,
  before: unknown,
  after: unknown,
): void {
  if (before === undefined && hasHidden(name))
    all.found.push({ path: visible(path), after: visible(name), suspicion: 'hidden_characters' });
  collect(all, path, before, after);
}

const pointerPart = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1');

function suspicionOf(
  path: string,
  before: unknown,
  after: unknown,
  isNew: boolean,
): Suspicion | undefined {
  const texts = stringsIn(after);
  const known = stringsIn(before).join('\n');
  if (texts.some((text) => hasHidden(text) && !known.includes(text))) return 'hidden_characters';
  if (isWeakerHint(path, before, after)) return 'weaker_hint';
  const isRequired = path.endsWith('/required') && path.startsWith('/inputSchema');
  // In a new tool, everything is new.
  if (isRequired && Array.isArray(after) && !isNew) {
    const old: unknown[] = Array.isArray(before) ? before : [];
    if (after.some((name) => !old.includes(name))) return 'new_required';
  }
  const addressed = texts.find((text) => ADDRESSES_MODEL.some((pattern) => pattern.test(text)));
  if (addressed !== undefined && !known.includes(addressed)) return 'addresses_model';
  return undefined;
}

function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) || isObject(value) ? Object.values(value).flatMap(stringsIn) : [];
}

/** The value that promises less harm. */
const HARMLESS: Readonly<Record<string, boolean>> = {
  '/annotations/readOnlyHint': true,
  '/annotations/destructiveHint': false,
  '/annotations/idempotentHint': true,
  '/annotations/openWorldHint': false,
};

function isWeakerHint(path: string, before: unknown, after: unknown): boolean {
  return typeof before === 'boolean' && after !== before && HARMLESS[path] === after;
}

/**
 * Orders to the model that honest descriptions do not need: to forget, to hide something from the person, markup of prompts. "Call X first" is
 * ordinary. Without unbounded repetitions, because the texts are a stranger's.
 */
const ADDRESSES_MODEL = [
  /\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|earlier|above|other|all|system)\b.{0,40}\b(instructions?|prompts?|rules|messages?|tools?)\b/is,
  /\b(do not|don't|never|without)\b.{0,20}\b(tell|telling|mention|mentioning|inform|informing|reveal|revealing|show|showing|notify|notifying|alert|alerting)\b.{0,40}\b(user|person|human|operator)\b/is,
  /<\/?\s{0,3}(important|system|secret|instructions?|assistant|admin)\b[^>]{0,40}>/i,
  /\[\/?INST\]|<\|(im_start|im_end|system|endoftext)\|>/i,
  /\b(system prompt|conversation history|chat history|private key|id_rsa|\.ssh\/|\.env\b)/i,
];

/**
 * Characters that a person does not see or that change the order of others, and escape sequences of terminals. Line breaks, tabs, and the parts of
 * emoji are none.
 */
const HIDDEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Co}\p{Cs}\u2028\u2029]/u;
const ORDINARY =
  /[\n\r\t]|\uFE0F|(?<=\p{Extended_Pictographic}\uFE0F?)\u200D(?=\p{Extended_Pictographic})/gu;

export function hasHidden(text: string): boolean {
  return HIDDEN.test(text.replaceAll(ORDINARY, ''));
}

/** Writes characters that nobody sees as their code, such as `⟨U+202E⟩`. */
export function visible(text: string): string {
  return text.replaceAll(
    new RegExp(`(?![\\n\\t])${HIDDEN.source}`, 'gu'),
    (character) =>
      `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const cut = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}…` : text;
  return visible(cut);
}
