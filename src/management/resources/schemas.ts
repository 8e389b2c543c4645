// Parts of the schemas of several resources. The command line loads them too, so they need no server code.
import * as z from 'zod';
import { levelIds, type Levels } from '../../permission-levels.ts';
import { rateText } from '../../settings/limits.ts';
import { toolPatterns } from '../../settings/tool-patterns.ts';
import { duration } from '../../settings/value-types.ts';

const DAY_SECONDS = 86_400;
/** Of minted tokens and machines, which always expire. */
export const DEFAULT_LIFETIME_SECONDS = 90 * DAY_SECONDS;
export const MAX_LIFETIME_SECONDS = 366 * DAY_SECONDS;
const MAX_PAGE_ITEMS = 1000;
const DEFAULT_PAGE_ITEMS = 100;

// Representations. All times are ISO 8601.

export const time = z.iso.datetime();
/** A stored level may no longer be in the settings. */
export const level = z.string();
export const upstream = z
  .string()
  .describe('Id of the MCP server that it leads to. Absent for the sample, or if none was given.');

export const key = z
  .string()
  .describe('Its key in the file of `gatehouse apply`. Absent if no file made or adopted it.');

export const tools = z
  .array(z.string())
  .describe('What it opens of the MCP server, as patterns. Absent: everything of the level.');

export const calls = z
  .string()
  .optional()
  .describe('Limit on all its calls together, such as `1000/1d`. Absent: none.');

export const newCalls = rateText
  .optional()
  .describe('Limit on all its calls together, such as `1000/1d`.');
export const changedCalls = newCalls.unwrap().nullable().optional();

export type Page<Item> = { items: Item[]; next?: string | undefined };

export function pageMembers<Item extends z.ZodType>(item: Item) {
  const next = z.string().optional().describe('Pass as `after` to get the next page.');
  return { items: z.array(item), next };
}

export function pageSchema<Item extends z.ZodType>(id: string, item: Item) {
  return z.strictObject(pageMembers(item)).meta({ id });
}

// Queries.

const pageSize = `a whole number from 1 to ${MAX_PAGE_ITEMS}`;
const cursor = 'the value of `next` in an earlier page';
const MAX_SEARCH_CHARACTERS = 200;
const SEARCH = `at most ${MAX_SEARCH_CHARACTERS} characters`;

/** Of the year 9999 in UTC: ISO 8601 writes later times differently. */
const LAST_SECOND = 253_402_300_799;

export const timestamp = z.iso
  .datetime({ offset: true, error: 'a time such as 2030-01-31T12:00:00Z' })
  .transform((iso) => Math.floor(Date.parse(iso) / 1000))
  .refine((at) => at <= LAST_SECOND, 'a time such as 2030-01-31T12:00:00Z');

/** The parameters that select a page. A cursor matches `form`. */
export function pageQuery(form: RegExp) {
  const limit = z
    .string(pageSize)
    .regex(/^\d{1,6}$/, pageSize)
    .transform(Number)
    .refine((items) => items >= 1 && items <= MAX_PAGE_ITEMS, pageSize)
    .default(DEFAULT_PAGE_ITEMS);
  return { limit, after: z.string(cursor).regex(form, cursor).optional() };
}

/** Each word has to be in one of the fields that `fields` names. */
export function search(fields: string) {
  return z
    .string(SEARCH)
    .max(MAX_SEARCH_CHARACTERS, SEARCH)
    .optional()
    .describe(`Lists only items with all of these words in ${fields}, ignoring case.`);
}

export function oneOf<const Values extends readonly string[]>(values: Values) {
  return z.enum(values, `one of ${values.join(', ')}`).optional();
}

export function idSchema(what: string) {
  return z.string(what).min(1, what).max(500, what);
}

// Bodies.

export const OBJECT = 'the body must be a JSON object';
export const VISIBLE_CHARACTERS = '1 to 80 visible characters';
/** Excludes control, invisible and text-direction characters: names appear on the consent page and in terminals. */
export const NAME = /^[^\p{Cc}\p{Cs}\p{Bidi_Control}\u00AD\u200B\u2028\u2029\u2060\uFEFF]{1,80}$/u;

export const newName = z.string(VISIBLE_CHARACTERS).trim().regex(NAME, VISIBLE_CHARACTERS);

export const newUpstream = z
  .string('the id of an upstream')
  .max(32, 'the id of an upstream')
  .optional()
  .describe('Id of an MCP server in the settings. Default: the first.');

export const newTools = toolPatterns
  .optional()
  .describe(
    'What it opens: names of tools, `resource:<uri>` or `prompt:<name>`, where `*` stands for any characters; `!` before one takes it out. Default: everything of the level.',
  );
export const changedTools = newTools.unwrap().nullable().optional();

/** The error lists the levels of the settings. */
export function levelIn(levels: Levels) {
  const ids = levelIds(levels);
  return z.enum(ids, ids.length === 1 ? `only ${ids[0]}` : `one of ${ids.join(', ')}`);
}

/** Accepts times up to `max` seconds from `now`. */
export function expiryFields(now: number, max = Infinity) {
  const tooLate = `at most ${max / DAY_SECONDS}d from now`;
  return {
    expiresIn: duration.refine((seconds) => seconds <= max, tooLate).optional(),
    expiresAt: timestamp
      .refine((at) => at > now, 'a time in the future')
      .refine((at) => at <= now + max, tooLate)
      .optional(),
  };
}

/** Those of a change, in which `null` removes the expiry. */
export function changedExpiryFields(now: number) {
  const { expiresIn, expiresAt } = expiryFields(now);
  return { expiresIn, expiresAt: expiresAt.unwrap().nullable().optional() };
}

/** The members of a change that were sent, with `expiresAt` in place of `expiresIn`. */
export function withExpiry<Sent extends { expiresIn?: number | undefined }>(
  now: number,
  { expiresIn, ...others }: Sent,
) {
  return expiresIn === undefined ? others : { ...others, expiresAt: now + expiresIn };
}

export const dryRunQuery = z.strictObject({
  dryRun: z
    .enum(['true', 'false'], 'true or false')
    .optional()
    .describe('With `true`, nothing is changed, and `affected` says what would be.'),
});

type Expiry = { expiresIn?: number | undefined; expiresAt?: number | null | undefined };

export function hasOneExpiry({ expiresIn, expiresAt }: Expiry): boolean {
  return expiresIn === undefined || expiresAt === undefined;
}

export const ONE_EXPIRY = {
  error: 'either expiresIn or expiresAt, not both',
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};
