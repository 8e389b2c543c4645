// What a tool is recognized by: a digest over the whole tool as the server sent it (RFC 8785), unknown members and `_meta` included.
import { createHash } from 'node:crypto';
import { isObject, isRawJSON } from '../json-values.ts';
import { hintsIn, type ToolHints } from './tool-catalog.ts';

/** One text of a tool, or of a server's instructions. Two are the same if their digests are, and if one only lacks annotations of the other. */
export type Variant = {
  digest: string;
  /** Over the tool without its annotations. */
  bare: string;
  /** A digest for each member of the annotations. Servers leave some out when an app connects again. */
  annotations: readonly (readonly [member: string, digest: string])[];
  /** Its input schema is not of an object, for which some apps drop all tools of the server. */
  isNoObject?: true;
  /** Why its input schema is not enforced. */
  schemaFault?: string;
};

/** Deeper ones are no tools: programs recurse through them. */
const MAX_DEPTH = 200;
/** Of more, each one counts as a whole. */
const MAX_ANNOTATIONS = 32;

/** Undefined if the tool cannot be read: no object, nested too deeply. */
export function variantOf(tool: unknown): Variant | undefined {
  if (!isObject(tool)) return undefined;
  const { annotations, ...bare } = tool;
  const members = isObject(annotations) ? Object.entries(annotations) : [];
  const isLenient = members.length <= MAX_ANNOTATIONS && (isObject(annotations) || !annotations);
  try {
    return {
      digest: digestOfJson(tool),
      bare: digestOfJson(isLenient ? bare : tool),
      annotations: isLenient
        ? members.map(([name, value]) => [name, digestOfJson(value)] as const)
        : [],
    };
  } catch (error) {
    if (error instanceof TooDeep) return undefined;
    throw error;
  }
}

export function variantOfText(text: string): Variant {
  const digest = digestOfJson(text);
  return { digest, bare: digest, annotations: [] };
}

/** Whether a tool is one that was seen before: the same, or without some of its annotations. */
export function isSameVariant(known: Variant, seen: Variant): boolean {
  if (known.digest === seen.digest) return true;
  if (known.bare !== seen.bare) return false;
  const stated = new Map(known.annotations);
  return seen.annotations.every(([member, digest]) => stated.get(member) === digest);
}

/** The hints of a text, which its annotations name by digest. */
export function hintsOf({ annotations }: Variant): ToolHints {
  return hintsIn(
    Object.fromEntries(annotations.map(([member, digest]) => [member, STATED.get(digest)])),
  );
}

class TooDeep extends Error {}

function digestOfJson(value: unknown): string {
  return createHash('sha256').update(canonicalForm(value, 0)).digest('base64url');
}

const STATED = new Map([true, false].map((hint) => [digestOfJson(hint), hint]));

/** RFC 8785. Numbers are doubles, so integers beyond them count as the nearest one. */
function canonicalForm(value: unknown, depth: number): string {
  if (depth > MAX_DEPTH) throw new TooDeep();
  if (Array.isArray(value))
    return `[${value.map((item) => canonicalForm(item, depth + 1)).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value ?? null);
  if (isRawJSON(value)) return JSON.stringify(Number(JSON.stringify(value)));
  // The default order is that of UTF-16 code units, as the RFC wants it.
  const names = Object.keys(value).toSorted();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalForm(value[name], depth + 1)}`).join(',')}}`;
}

/** As models read names: everything but letters and digits is `_`, whatever the case and the form, and nothing is invisible. */
export function nameForModels(name: string): string {
  const visible = name.normalize('NFKC').replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '');
  return visible
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
    .replaceAll(/[^\p{L}\p{N}]/gu, '_');
}
