// What the management API accepts, and one readable sentence about everything that is wrong with what was sent.
import { z } from 'zod';
import { ACCOUNT_ID } from '../accounts/account.ts';
import { CONNECTION_STATES } from '../connections/connection.ts';
import type { NewConnector } from '../connectors/connectors.ts';
import { HttpError } from '../http/errors.ts';
import { MINTED_TOKEN_ID, type NewMintedToken } from '../minted-tokens/minted-tokens.ts';
import { isAtLeast, type Level, LEVELS } from '../permission-level.ts';
import { duration } from '../settings/value-forms.ts';

/** Every use of a limited connector is kept in its record, which is read on every call. */
const MOST_USES = 10_000;
const DAY = 86_400;
const USUAL_TOKEN = 90 * DAY;
const LONGEST_TOKEN = 366 * DAY;
const LONGEST_PAGE = 1000;
const USUAL_PAGE = 100;

const VISIBLE = '1 to 80 visible characters';
/** Names are shown on the consent page or in terminals: nothing in them may be unseen or turn text round. */
const NAME = /^[^\p{Cc}\p{Cs}\p{Bidi_Control}\u00AD\u200B\u2028\u2029\u2060\uFEFF]{1,80}$/u;

const instant = z.iso
  .datetime({ offset: true, error: 'a time such as 2030-01-31T12:00:00Z' })
  .transform((iso) => Math.floor(Date.parse(iso) / 1000));

const uses = `a whole number from 1 to ${MOST_USES}`;
const pageSize = `a whole number from 1 to ${LONGEST_PAGE}`;

const limit = z
  .string(pageSize)
  .regex(/^\d{1,6}$/, pageSize)
  .transform(Number)
  .refine((items) => items >= 1 && items <= LONGEST_PAGE, pageSize)
  .default(USUAL_PAGE);

const place = 'the next of an earlier page';

export const connectorsQuery = z.strictObject({
  limit,
  after: z
    .string(place)
    .regex(/^\d{1,12}(\.\d{1,9})?-[A-Za-z0-9]{22}$/, place)
    .optional(),
});

export const accountsQuery = z.strictObject({
  limit,
  after: z.string(place).regex(ACCOUNT_ID, place).optional(),
});

export const tokensQuery = z.strictObject({
  limit,
  after: z.string(place).regex(MINTED_TOKEN_ID, place).optional(),
});

export const auditQuery = z.strictObject({
  limit,
  after: z
    .string(place)
    .regex(/^\d{32}$/, place)
    .optional(),
  since: instant.optional(),
  order: z.enum(['oldest', 'newest'], 'oldest or newest, which comes first').optional(),
  event: z
    .string()
    .regex(/^[a-z0-9_]{1,60}$/, 'the name of an event')
    .optional(),
});

const identifier = (what: string) => z.string(what).min(1, what).max(500, what);

export const grantsQuery = z.strictObject({
  limit,
  after: z
    .string(place)
    .regex(/^\d{12}\.[\w-]{16,64}( [A-Za-z0-9]{22})?$/, place)
    .optional(),
  connector: identifier('the id of a connector').optional(),
  account: identifier('the id of an account').optional(),
  client: identifier('the id of a client').optional(),
  state: z.enum(CONNECTION_STATES, `one of ${CONNECTION_STATES.join(', ')}`).optional(),
});

export const clientsQuery = z.strictObject({
  limit,
  after: identifier(place).optional(),
  id: identifier('the id of a client').optional(),
});

export type GrantsQuery = z.output<typeof grantsQuery>;
export type ClientsQuery = z.output<typeof clientsQuery>;

const OBJECT = 'the body must be a JSON object';

export const clientBody = z.strictObject({ id: identifier('the id of a client') }, OBJECT);

export const rotationBody = z.strictObject(
  { atOnce: z.boolean('true or false').optional() },
  OBJECT,
);

const level = z.enum(LEVELS, `one of ${LEVELS.join(', ')}`);

const named = { name: z.string(VISIBLE).trim().regex(NAME, VISIBLE), level };

type Suggestion = { level: Level; suggestedLevel?: Level | undefined };

function isSuggestionWithin({ level: highest, suggestedLevel }: Suggestion): boolean {
  return suggestedLevel === undefined || isAtLeast(highest, suggestedLevel);
}

const SUGGESTION_WITHIN = {
  error: 'at most the level of the connector',
  path: ['suggestedLevel'],
};

/** At most one of the two, and `longest` seconds from now. */
function expiryAt(now: number, longest = Infinity) {
  const most = `at most ${longest / DAY}d from now`;
  return {
    expiresIn: duration.refine((seconds) => seconds <= longest, most).optional(),
    expiresAt: instant
      .refine((moment) => moment > now, 'a time that has not passed')
      .refine((moment) => moment <= now + longest, most)
      .optional(),
  };
}

type Expiry = { expiresIn?: number | undefined; expiresAt?: number | undefined };

function isOneExpiry({ expiresIn, expiresAt }: Expiry): boolean {
  return expiresIn === undefined || expiresAt === undefined;
}

const ONE_EXPIRY = {
  error: 'expiresIn or expiresAt, not both',
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};

/** The body of a request for a connector. `now` is seconds, and so is the `expiresAt` that comes out. */
export function newConnector(now: number) {
  const maxUses = z.int(uses).min(1, uses).max(MOST_USES, uses).optional();
  return z
    .strictObject({ ...named, suggestedLevel: level.optional(), maxUses, ...expiryAt(now) }, OBJECT)
    .refine(isOneExpiry, ONE_EXPIRY)
    .refine(isSuggestionWithin, SUGGESTION_WITHIN)
    .transform(({ expiresIn, ...connector }): NewConnector => {
      return expiresIn === undefined ? connector : { ...connector, expiresAt: now + expiresIn };
    });
}

/** As `newConnector`, for a minted token: that one always expires. */
export function newToken(now: number) {
  return z
    .strictObject({ ...named, ...expiryAt(now, LONGEST_TOKEN) }, OBJECT)
    .refine(isOneExpiry, ONE_EXPIRY)
    .transform(({ expiresIn = USUAL_TOKEN, ...token }): NewMintedToken => {
      return { expiresAt: now + expiresIn, ...token };
    });
}

/** Throws HttpError 400 that names every problem. */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new HttpError(400, 'invalid_request', parsed.error.issues.map(describe).join('; '));
}

function describe(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys')
    return `not known here: ${issue.keys.map(shown).join(', ')}`;
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message;
}

/** What a caller sent is repeated only when it looks like a name. */
function shown(key: string): string {
  return /^\w{1,40}$/.test(key) ? key : 'a name of unusual form';
}
