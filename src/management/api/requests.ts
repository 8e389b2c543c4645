// Query parameters and bodies that the management API accepts, as schemas without server code: the command line loads them too.
import { z } from 'zod';
import { ACCOUNT_ID_LENGTH, MAX_EMAIL_LENGTH } from '../../accounts/account.ts';
import { CLIENT_STATES } from '../../clients/clients.ts';
import { blockableHost, comparableName } from '../../clients/rules.ts';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import { MAX_AUDIENCE_RULES } from '../../connectors/audience.ts';
import { CONNECTOR_STATES } from '../../connectors/connector.ts';
import type { NewConnector } from '../../connectors/connectors.ts';
import type { NewMintedToken } from '../../minted-tokens/minted-tokens.ts';
import { auditEvents } from '../../observability/labels.ts';
import { isAtLeast, type Level, levelIds, type Levels } from '../../permission-levels.ts';
import { emailDomain } from '../../settings/identity-provider-schema.ts';
import { isKeySetAddress, isPublicKeySet } from '../../settings/key-set.ts';
import { duration } from '../../settings/value-types.ts';

/** The record of a connector, which every call reads, holds an entry for each use. */
const MAX_USES = 10_000;
const DAY_SECONDS = 86_400;
const DEFAULT_TOKEN_SECONDS = 90 * DAY_SECONDS;
const MAX_TOKEN_SECONDS = 366 * DAY_SECONDS;
const MAX_PAGE_ITEMS = 1000;
const DEFAULT_PAGE_ITEMS = 100;

/** Disabled people keep their account. */
export const ACCOUNT_STATES = ['active', 'disabled'] as const;
/** `keyReplaced`: the key that signed it is no longer published, so it is refused. */
export const TOKEN_STATES = ['active', 'keyReplaced'] as const;

const VISIBLE_CHARACTERS = '1 to 80 visible characters';
/** Excludes control, invisible and text-direction characters: names appear on the consent page and in terminals. */
const NAME = /^[^\p{Cc}\p{Cs}\p{Bidi_Control}\u00AD\u200B\u2028\u2029\u2060\uFEFF]{1,80}$/u;

const timestamp = z.iso
  .datetime({ offset: true, error: 'a time such as 2030-01-31T12:00:00Z' })
  .transform((iso) => Math.floor(Date.parse(iso) / 1000));

const uses = `a whole number from 1 to ${MAX_USES}`;
const pageSize = `a whole number from 1 to ${MAX_PAGE_ITEMS}`;

const limit = z
  .string(pageSize)
  .regex(/^\d{1,6}$/, pageSize)
  .transform(Number)
  .refine((items) => items >= 1 && items <= MAX_PAGE_ITEMS, pageSize)
  .default(DEFAULT_PAGE_ITEMS);

const cursor = 'the value of `next` in an earlier page';

const MAX_SEARCH_CHARACTERS = 200;
const SEARCH = `at most ${MAX_SEARCH_CHARACTERS} characters`;

/** Each word has to be in one of the fields that `fields` names. */
const search = (fields: string) =>
  z
    .string(SEARCH)
    .max(MAX_SEARCH_CHARACTERS, SEARCH)
    .optional()
    .describe(`Lists only items with all of these words in ${fields}, ignoring case.`);

export const connectorsQuery = z.strictObject({
  limit,
  after: z
    .string(cursor)
    .regex(/^\d{1,12}(\.\d{1,9})?-[A-Za-z0-9]{22}$/, cursor)
    .optional(),
  q: search('its name, id or link'),
  state: z.enum(CONNECTOR_STATES, `one of ${CONNECTOR_STATES.join(', ')}`).optional(),
});

export const accountsQuery = z.strictObject({
  limit,
  after: z
    .string(cursor)
    .regex(new RegExp(`^w?[\\w-]{${ACCOUNT_ID_LENGTH}}$`), cursor)
    .optional(),
  q: search('the name, verified email address, id or identity provider'),
  state: z.enum(ACCOUNT_STATES, `one of ${ACCOUNT_STATES.join(', ')}`).optional(),
});

export const tokensQuery = z.strictObject({
  limit,
  after: z
    .string(cursor)
    .regex(/^[0-9a-f]{32}$/, cursor)
    .optional(),
  q: search('its name, id or last four characters'),
  state: z.enum(TOKEN_STATES, `one of ${TOKEN_STATES.join(', ')}`).optional(),
});

const idSchema = (what: string) => z.string(what).min(1, what).max(500, what);

export const auditQuery = z.strictObject({
  limit,
  after: z
    .string(cursor)
    .regex(/^\d{32}$/, cursor)
    .optional(),
  since: timestamp.optional(),
  order: z.enum(['oldest', 'newest'], 'oldest or newest: the items to list first').optional(),
  event: z.enum(auditEvents, `one of ${auditEvents.join(', ')}`).optional(),
  account: idSchema('the id of an account').optional(),
  client: idSchema('the id of a client').optional(),
  grant: idSchema('the id of a grant').optional(),
});

export const grantsQuery = z.strictObject({
  limit,
  after: z
    .string(cursor)
    .regex(/^\d{12}\.[\w-]{16,64}( [A-Za-z0-9]{22}| [\w-]{27})?$/, cursor)
    .optional(),
  connector: idSchema('the id of a connector').optional(),
  account: idSchema('the id of an account').optional(),
  client: idSchema('the id of a client').optional(),
  state: z.enum(CONNECTION_STATES, `one of ${CONNECTION_STATES.join(', ')}`).optional(),
  level: z
    .string('the id of a level')
    .max(100, 'the id of a level')
    .optional()
    .describe('Lists only items with this level.'),
  q: search(
    'the name, id or redirect host of the app, or the name, verified email address or id of the person, or the name or id of the connector',
  ),
});

export const clientsQuery = z.strictObject({
  limit,
  // The name of a list, and an id.
  after: z
    .string(cursor)
    .regex(/^([a-z-]{1,30}:\w{1,20} )?.{1,500}$/, cursor)
    .optional(),
  id: idSchema('the id of a client').optional(),
  state: z.enum(CLIENT_STATES, `one of ${CLIENT_STATES.join(', ')}`).optional(),
  q: search('its name, id or redirect URIs'),
});

export type GrantsQuery = z.output<typeof grantsQuery>;
export type ClientsQuery = z.output<typeof clientsQuery>;
export type ConnectorsQuery = z.output<typeof connectorsQuery>;
export type AccountsQuery = z.output<typeof accountsQuery>;
export type TokensQuery = z.output<typeof tokensQuery>;

const OBJECT = 'the body must be a JSON object';

export const clientIdBody = z.strictObject({ id: idSchema('the id of a client') }, OBJECT);

const PUBLIC_KEYS = 'a JSON Web Key Set with 1 to 10 public keys';
const KEY_TYPES = ['EC', 'OKP', 'RSA'] as const;
const MAX_KEYS = 10;
const MAX_URL_LENGTH = 2000;

/** Members of private keys (RFC 7518 section 6). */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

const publicKey = z
  .looseObject({ kty: z.enum(KEY_TYPES, PUBLIC_KEYS) }, PUBLIC_KEYS)
  .refine((key) => !PRIVATE_MEMBERS.some((member) => member in key), 'public keys only');

const machineKey = {
  jwks: z
    .strictObject(
      { keys: z.array(publicKey, PUBLIC_KEYS).min(1, PUBLIC_KEYS).max(MAX_KEYS, PUBLIC_KEYS) },
      PUBLIC_KEYS,
    )
    .refine(isPublicKeySet, PUBLIC_KEYS)
    .optional()
    .describe(
      'Public keys with which the machine signs (`private_key_jwt`). Without a key it gets a secret.',
    ),
  jwksUri: z
    .url({ protocol: /^https$/, error: 'an https URL' })
    .max(MAX_URL_LENGTH, 'an https URL')
    .refine(isKeySetAddress, 'an https URL with a host name and without a port')
    .optional()
    .describe('Address of the public keys, on a public host.'),
};

const ONE_KEY = 'either jwks or jwksUri, not both';
const hasOneKey = ({ jwks, jwksUri }: { jwks?: unknown; jwksUri?: unknown }) =>
  jwks === undefined || jwksUri === undefined;

export const machineKeyBody = z
  .strictObject({ id: idSchema('the id of a client'), ...machineKey }, OBJECT)
  .refine(hasOneKey, ONE_KEY);

export const allowClientBody = z.strictObject(
  {
    id: idSchema('the id of a client'),
    app: z
      .boolean('true or false')
      .optional()
      .describe(
        'Also allows later registrations with the same name and no other redirect hosts. Names are not verified.',
      ),
  },
  OBJECT,
);

const HOST =
  'a host name such as evil.example, without scheme, port, path and *; not a loopback host';
const BLOCKED_NAME = `${VISIBLE_CHARACTERS} with a letter or digit`;
const ONE_BLOCK = 'either host or name';

export const blockBody = z
  .strictObject(
    {
      host: z
        .string(HOST)
        .max(500, HOST)
        .transform((text, context) => {
          const host = blockableHost(text);
          if (host === undefined) context.addIssue(HOST);
          return host ?? z.NEVER;
        })
        .optional()
        .describe('Blocks this host and its subdomains in redirect URIs and metadata documents.'),
      name: z
        .string(BLOCKED_NAME)
        .trim()
        .regex(NAME, BLOCKED_NAME)
        .refine((name) => comparableName(name) !== '', BLOCKED_NAME)
        .optional()
        .describe('Blocks this name. Case, spaces, punctuation and accents are ignored.'),
    },
    OBJECT,
  )
  .refine(({ host, name }) => (host === undefined) !== (name === undefined), {
    error: ONE_BLOCK,
    when: ({ value, issues }) => typeof value === 'object' && value !== null && issues.length === 0,
  })
  .transform(({ host, name = '' }): BlockBody => (host === undefined ? { name } : { host }));

export type BlockBody = { host: string } | { name: string };

export const rotateKeysBody = z.strictObject(
  { atOnce: z.boolean('true or false').optional() },
  OBJECT,
);

/** The error lists the levels of the settings. */
function levelIn(levels: Levels) {
  const ids = levelIds(levels);
  return z.enum(ids, ids.length === 1 ? `only ${ids[0]}` : `one of ${ids.join(', ')}`);
}

const nameAndUpstream = {
  name: z.string(VISIBLE_CHARACTERS).trim().regex(NAME, VISIBLE_CHARACTERS),
  upstream: z
    .string('the id of an upstream')
    .max(32, 'the id of an upstream')
    .optional()
    .describe('Id of an MCP server in the settings. Default: the first.'),
};

type LevelAndSuggestion = { level: Level; suggestedLevel?: Level | undefined };

function isSuggestionWithinLevel(
  levels: Levels,
  { level: max, suggestedLevel }: LevelAndSuggestion,
): boolean {
  return suggestedLevel === undefined || isAtLeast(levels, max, suggestedLevel);
}

const SUGGESTION_WITHIN_LEVEL = {
  error: 'at most the level of the connector',
  path: ['suggestedLevel'],
};

const MAX_DOMAIN_LENGTH = 253;
const VISIBLE_TEXT =
  /^[^\p{Cc}\p{Cs}\p{Bidi_Control}\u00AD\u200B\u2028\u2029\u2060\uFEFF]{1,200}$/u;
const GROUP = '1 to 200 visible characters';
const CRITERION = 'exactly one of email, emailDomain and group';
const RULES = `a list of 1 to ${MAX_AUDIENCE_RULES} rules, each with ${CRITERION}; leave it out for everybody`;
const provider = 'the id of an identity provider or trusted issuer';

const audienceRule = z
  .strictObject(
    {
      email: z
        .email('an email address')
        .max(MAX_EMAIL_LENGTH, 'an email address')
        .toLowerCase()
        .optional()
        .describe('Matches one person by a verified email address.'),
      emailDomain: emailDomain
        .max(MAX_DOMAIN_LENGTH, 'a domain such as example.com')
        .toLowerCase()
        .optional()
        .describe('Matches everybody with a verified email address in this domain.'),
      group: z
        .string(GROUP)
        .regex(VISIBLE_TEXT, GROUP)
        .optional()
        .describe('Matches the members of a group.'),
      provider: z
        .string(provider)
        .min(1, provider)
        .max(MAX_DOMAIN_LENGTH, provider)
        .optional()
        .describe(
          'Id of the sign-in provider or trusted issuer that must assert this. Required for a group if there are several sign-in providers. A rule without it never applies to a trusted issuer.',
        ),
    },
    CRITERION,
  )
  .refine(
    ({ email, emailDomain: domain, group }) =>
      [email, domain, group].filter((criterion) => criterion !== undefined).length === 1,
    CRITERION,
  );

const audience = z
  .array(audienceRule, RULES)
  .min(1, RULES)
  .max(MAX_AUDIENCE_RULES, RULES)
  .optional()
  .describe('The people who may use the connector. Absent: everybody.');

/** Accepts times up to `max` seconds from `now`. */
function expiryFields(now: number, max = Infinity) {
  const tooLate = `at most ${max / DAY_SECONDS}d from now`;
  return {
    expiresIn: duration.refine((seconds) => seconds <= max, tooLate).optional(),
    expiresAt: timestamp
      .refine((time) => time > now, 'a time in the future')
      .refine((time) => time <= now + max, tooLate)
      .optional(),
  };
}

type Expiry = { expiresIn?: number | undefined; expiresAt?: number | undefined };

function hasOneExpiry({ expiresIn, expiresAt }: Expiry): boolean {
  return expiresIn === undefined || expiresAt === undefined;
}

const ONE_EXPIRY = {
  error: 'either expiresIn or expiresAt, not both',
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};

/** Creates the body schema for a new connector. `now` and the resulting `expiresAt` are in seconds. */
export function newConnectorBody(now: number, levels: Levels) {
  const level = levelIn(levels);
  const maxUses = z.int(uses).min(1, uses).max(MAX_USES, uses).optional();
  return z
    .strictObject(
      {
        ...nameAndUpstream,
        level,
        suggestedLevel: level.optional(),
        audience,
        maxUses,
        ...expiryFields(now),
      },
      OBJECT,
    )
    .refine(hasOneExpiry, ONE_EXPIRY)
    .refine((body) => isSuggestionWithinLevel(levels, body), SUGGESTION_WITHIN_LEVEL)
    .transform(({ expiresIn, ...connector }): NewConnector => {
      return expiresIn === undefined ? connector : { ...connector, expiresAt: now + expiresIn };
    });
}

/** Creates the body schema for a new minted token, which always expires. */
export function newTokenBody(now: number, levels: Levels) {
  return z
    .strictObject(
      { ...nameAndUpstream, level: levelIn(levels), ...expiryFields(now, MAX_TOKEN_SECONDS) },
      OBJECT,
    )
    .refine(hasOneExpiry, ONE_EXPIRY)
    .transform(({ expiresIn = DEFAULT_TOKEN_SECONDS, ...token }): NewMintedToken => {
      return { expiresAt: now + expiresIn, ...token };
    });
}

/** Creates the body schema for a new machine, which always expires. */
export function newMachineBody(now: number, levels: Levels) {
  return z
    .strictObject(
      {
        name: nameAndUpstream.name,
        connector: idSchema('the id of a connector'),
        level: levelIn(levels),
        ...machineKey,
        ...expiryFields(now, MAX_TOKEN_SECONDS),
      },
      OBJECT,
    )
    .refine(hasOneExpiry, ONE_EXPIRY)
    .refine(hasOneKey, ONE_KEY)
    .transform(({ expiresIn = DEFAULT_TOKEN_SECONDS, ...machine }) => {
      return { expiresAt: now + expiresIn, ...machine };
    });
}
