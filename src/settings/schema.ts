// The schema of the settings file. `npm run settings:reference` writes config/settings.md from the descriptions.
import * as z from 'zod';
import { DEFAULT_LEVELS, OFFLINE_ACCESS } from '../permission-levels.ts';
import {
  emailDomain,
  identityProviderSchema,
  identityProvidersSchema,
  stepUpSchema,
  trustedIssuerSchema,
} from './identity-provider-schema.ts';
import { appCatalog } from './apps.ts';
import { deliverySchema } from './audit-delivery.ts';
import { credentialSchema } from './credential-schema.ts';
import { limitsSchema, rate } from './limits.ts';
import { toolPatterns } from './tool-patterns.ts';
import { DEFAULT_KEY, MANAGEMENT_ROLES } from './management-roles.ts';
import { isKeySetAddress, isPublicKeySet } from './key-set.ts';
import {
  isRedirectPattern,
  isRedirectUri,
  REDIRECT_PATTERN,
  REDIRECT_URI,
} from './redirect-uri.ts';
import { parseStoreAddress } from './addresses.ts';
import {
  address,
  comparableIssuer,
  duration,
  headerValue,
  isDistinct,
  origin,
  shortId,
  webOrigin,
  wholeNumber,
} from './value-types.ts';

export const ROLES = ['authorization-server', 'resource-server', 'management'] as const;
export const role = z.enum(ROLES);
export type Role = z.output<typeof role>;

const YES_OR_NO = 'true or false';
const MAX_LEVELS = 8;
const MAX_LEVEL_TEXT = 500;
const LEVEL_ID = 'an id of 1 to 32 lower-case letters, digits and dashes that starts with a letter';

/** `checks.ts` compares it with `levels`. */
const levelId = z.string('the id of a level').meta({ valueType: 'id of a level' });

const LEVEL_TEXT = `a text of at most ${MAX_LEVEL_TEXT} characters, or one for each language, such as {en: …, de: …}`;
const levelText = z
  .union(
    [
      z.string().trim().min(1).max(MAX_LEVEL_TEXT),
      z
        .record(
          z.string().regex(/^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$/),
          z.string().trim().min(1).max(MAX_LEVEL_TEXT),
        )
        .refine((texts) => Object.keys(texts).length > 0),
    ],
    LEVEL_TEXT,
  )
  .meta({ valueType: 'text, or texts by language' });

/** Scopes with a meaning of their own. */
const RESERVED_SCOPES: readonly string[] = ['openid', OFFLINE_ACCESS];

const levelsSchema = z
  .array(
    z.strictObject({
      id: z
        .string(LEVEL_ID)
        .regex(/^[a-z][a-z0-9-]{0,31}$/, LEVEL_ID)
        .refine(
          (id) => !RESERVED_SCOPES.includes(id),
          `an id other than ${RESERVED_SCOPES.join(' and ')}`,
        )
        .describe('The scope, and what other settings and commands name.'),
      title: levelText.optional().describe('Title on pages.'),
      sees: levelText.optional().describe('What an app sees or does with it.'),
      hidden: levelText.optional().describe('What stays hidden.'),
      example: levelText.optional().describe('A question that an app can answer with it.'),
      recorded: z
        .boolean(YES_OR_NO)
        .default(false)
        .describe('Record each call in the audit log before it is made. Never preselected.'),
      arguments: z
        .enum(['none', 'full'], 'none or full')
        .optional()
        .describe(
          'What the audit log has of the arguments of calls: nothing, or their JSON, which may then have 64 kB. By default `full` if the level is `recorded`. People read it on the consent page.',
        ),
      calls: rate.optional().meta({
        description: 'Limit on the calls of one connection with this level, such as `60/1m`.',
        defaultText: 'none',
      }),
    }),
    'a list of levels, each with an id, the lowest first',
  )
  .min(1, 'one level or more')
  .max(MAX_LEVELS, `at most ${MAX_LEVELS} levels`)
  .refine(haveOwnIds, 'a unique id for each');

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const email = z.email('an email address').meta({ valueType: 'email address' });

/** `login#id` matches the numeric id. A login alone can be given up and registered by somebody else. */
const organization = z
  .string()
  .regex(
    /^[A-Za-z0-9][\w-]{0,99}(#[1-9]\d{0,15})?$/,
    'the login of an organization and its numeric id, such as example-corp#1234567',
  )
  .meta({ valueType: '`login#id`' });

const matchProperties = {
  subject: z
    .string()
    .min(1)
    .optional()
    .describe('Matches one person by the subject at the identity provider.'),
  email: email.optional().describe('Matches one person by a verified email address.'),
  emailDomain: emailDomain
    .optional()
    .describe('Matches everybody with a verified email address in this domain.'),
  group: z.string().min(1).optional().describe('Matches the members of a group.'),
  organization: organization
    .optional()
    .describe(
      'Matches the members of a GitHub organization (requires `organizations: true`). `gatehouse doctor` and `https://api.github.com/orgs/<login>` show the numeric id. A login alone is accepted with a warning, because somebody else can register it later.',
    ),
  provider: z.string().min(1).optional().meta({
    description:
      'Id of the sign-in provider or trusted issuer that must assert this (`default` for `identityProvider`, `development` for `developmentIdp`). A rule without it never applies to a trusted issuer. With several sign-in providers, only rules with `email` or `emailDomain` may omit it.',
    defaultText: 'the owner of the email domain, otherwise every sign-in provider',
  }),
};

function hasOneCriterion(match: object): boolean {
  return Object.keys(match).filter((key) => key !== 'provider' && key !== 'role').length === 1;
}

const entitlement = z.strictObject({
  match: z
    .strictObject({
      anyone: z.literal(true).optional().describe('Matches everybody who can sign in.'),
      ...matchProperties,
    })
    .refine(
      hasOneCriterion,
      'exactly one of anyone, subject, email, emailDomain, group, organization',
    )
    .describe('People that the rule applies to: exactly one criterion, and optionally `provider`.'),
  level: levelId.describe('Highest level that these people may grant: an id of `levels`.'),
  tools: toolPatterns
    .optional()
    .describe(
      'What the rule opens: names of tools, `resource:<uri>` or `prompt:<name>`, where `*` stands for any characters; `!` before one takes it out. A person may use a tool if one rule that matches them opens it, with a level that suffices.',
    )
    .meta({ defaultText: 'everything of the level' }),
});
/** A rule as written in the file. `entitlements.ts` resolves it. */
export type RuleInFile = z.output<typeof entitlement>;

const managementRole = z.enum(MANAGEMENT_ROLES);

/** `anyone` is not possible here. */
const administrator = z
  .strictObject({
    ...matchProperties,
    provider: matchProperties.provider.meta({
      description:
        'Id of the sign-in provider that must assert this. Required with several providers.',
      defaultText: undefined,
    }),
    role: managementRole
      .default('administrator')
      .describe(
        'What these people may do: `viewer` reads, but no arguments, addresses and user agents of calls; `auditor` also reads these, and exports and verifies the audit log; `operator` also manages connectors, minted tokens, connections and apps; `administrator` also manages people and signing keys. If several rules match a person, all of these roles apply.',
      ),
  })
  .refine(hasOneCriterion, 'exactly one of subject, email, emailDomain, group, organization');

const managementKey = z
  .strictObject({
    name: shortId
      .refine(
        (name) => name !== DEFAULT_KEY,
        `a name other than ${DEFAULT_KEY}, which the management key has`,
      )
      .describe(
        'Name in the audit log, as `key:<name>`. `default` is the key that `GATEHOUSE_MANAGEMENT_KEY` sets or the data directory contains.',
      ),
    role: managementRole.describe(
      '`viewer`, `auditor`, `operator` or `administrator`, as for `management.administrators`. `viewer` suffices for `/metrics`.',
    ),
    keyFile: z
      .string()
      .min(1)
      .optional()
      .describe('File that contains the key, at least 32 characters.'),
    keyEnv: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Environment variable that contains the key, in place of `keyFile`. Its name does not start with `GATEHOUSE_`.',
      ),
  })
  .refine(
    ({ keyFile, keyEnv }) => (keyFile === undefined) !== (keyEnv === undefined),
    'exactly one of keyFile and keyEnv',
  );
export type ManagementKeyInFile = z.output<typeof managementKey>;

const linkAddress = z
  .url({ protocol: /^(https|mailto)$/, error: 'an https or mailto address' })
  .meta({ valueType: 'https or mailto URL' });
const httpsUrl = z
  .url({ protocol: /^https$/, error: 'an https address' })
  .meta({ valueType: 'https URL' });
const redirectUri = z
  .string()
  .refine(isRedirectUri, REDIRECT_URI)
  .meta({ valueType: 'redirect URI' });

/** A path ends with a slash so that `/a` does not match `/ab`. URL parsers remove dot segments, so they are refused. */
const documentHost = z
  .string()
  .regex(
    /^([a-z0-9-]+\.)+[a-z][a-z0-9-]*(\/((?!\.+\/)[\w.~-]+\/)*)?$/,
    'a host such as app.example.com, or one with a path that ends with /',
  )
  .meta({ valueType: 'host or host/path/' });

function haveOwnIds(records: readonly { id: string }[]): boolean {
  return isDistinct(records.map(({ id }) => id));
}

const clientId = z
  .string()
  .regex(/^[\w.-]{3,64}$/, '3 to 64 letters, digits, dots, dashes or underscores')
  .meta({ valueType: 'id' });

const KEY_SET =
  'a JSON Web Key Set with only public keys, one of them for ES256, EdDSA, RS256 or PS256: {keys: […]}';
const KEY_SET_ADDRESS = 'an https address with a host name and without a port';

const allowedRedirect = z
  .string()
  .refine((text) => isRedirectUri(text) || isRedirectPattern(text), REDIRECT_PATTERN)
  .meta({ valueType: 'redirect URI' });

function isAppId(id: string): boolean {
  return appCatalog().some((app) => app.id === id);
}

const preRegisteredClient = z
  .strictObject({
    id: clientId.describe('Client id.'),
    name: z.string().min(1).max(80).describe('Name on the consent page.'),
    redirectUris: z.array(redirectUri).min(1).describe('Redirect URIs.'),
    secret: z.string().min(32).optional().meta({
      description: 'Client secret, at least 32 characters.',
      defaultText: 'none: a public client',
    }),
    jwks: z
      .strictObject({
        keys: z
          .array(z.record(z.string(), z.unknown()).meta({ valueType: 'JWK' }), KEY_SET)
          .describe('Public keys, as in its JWK set.'),
      })
      .refine(isPublicKeySet, KEY_SET)
      .optional()
      .meta({
        description:
          'In place of `secret`: the client authenticates with `private_key_jwt` and one of these public keys.',
        defaultText: 'none',
      }),
    jwksUri: z.string().refine(isKeySetAddress, KEY_SET_ADDRESS).optional().meta({
      description:
        'In place of `jwks`: the address of the set, https on a public host. It is fetched when the client first authenticates, hourly at least, and for an unknown key at most once a minute.',
      valueType: 'https address',
      defaultText: 'none',
    }),
  })
  .refine(
    ({ secret, jwks, jwksUri }) =>
      [secret, jwks, jwksUri].filter((credential) => credential !== undefined).length <= 1,
    'only one of secret, jwks, jwksUri',
  );

const introspectionClient = z.strictObject({
  id: clientId.describe('Client id.'),
  secret: z.string().min(32).describe('Client secret, at least 32 characters.'),
});

const person = z.strictObject({
  id: shortId.describe('Subject.'),
  name: z.string().min(1).describe('Full name.'),
  email: email.describe('Email address.'),
  groups: z.array(z.string()).default([]).describe('Groups of the person.'),
});

const MIN_ACCESS_TOKEN_SECONDS = 60;
const MAX_ACCESS_TOKEN_SECONDS = 86_400;

const lifetimes = z
  .strictObject({
    accessToken: duration
      .refine(
        (ttl) => ttl >= MIN_ACCESS_TOKEN_SECONDS && ttl <= MAX_ACCESS_TOKEN_SECONDS,
        'from 60s to 24h',
      )
      .prefault('1h')
      .describe('Access token, `60s` to `24h`.'),
    refreshTokenIdle: duration
      .prefault('30d')
      .describe('Refresh token that is not used. At least `accessToken`.'),
    refreshTokenAbsolute: duration
      .prefault('90d')
      .describe(
        'Connection of an app, from the consent on; then the person signs in again. At least `refreshTokenIdle`.',
      ),
    session: duration.prefault('12h').describe('Sign-in session at the authorization server.'),
    unusedClient: duration
      .prefault('24h')
      .describe('Registration of an app that nobody has allowed to connect.'),
    usedClient: duration
      .prefault('90d')
      .describe(
        'Registration of an app that somebody has allowed to connect, after its last use. At least `refreshTokenIdle`: a shorter one is raised to it, with a warning.',
      ),
  })
  .refine((ttl) => ttl.accessToken <= ttl.refreshTokenIdle, {
    path: ['refreshTokenIdle'],
    error: 'no less than lifetimes.accessToken (1h unless set)',
  })
  .refine((ttl) => ttl.refreshTokenIdle <= ttl.refreshTokenAbsolute, {
    path: ['refreshTokenAbsolute'],
    error: 'no less than lifetimes.refreshTokenIdle (30d unless set)',
  });

const MEGABYTE = 1024 * 1024;
const MAX_WORKERS = 128;
const MAX_UPSTREAM_TIMEOUT_SECONDS = 3600;
const MAX_HEARTBEAT_SECONDS = 600;

const UPSTREAM_URL =
  'the address of an MCP server such as https://tools.example.com/mcp, without a user name, a password or a #';

const upstreamUrl = z
  .string(UPSTREAM_URL)
  .refine((text) => {
    const parsed = URL.parse(text);
    if (!parsed || !/^https?:$/.test(parsed.protocol)) return false;
    return parsed.username === '' && parsed.password === '' && !text.includes('#');
  }, UPSTREAM_URL)
  .meta({ valueType: 'URL' });

const upstreamTimeout = duration.refine(
  (seconds) => seconds <= MAX_UPSTREAM_TIMEOUT_SECONDS,
  'at most 1h',
);

/** RFC 9110 section 7.2, without user information. */
const HOST = /^(?=.{1,255}$)([\w-]+(\.[\w-]+)*|\[[\da-f:.]+\])(:\d{1,5})?$/i;

export const TOOL_CHANGES = ['follow', 'hold'] as const;
/** `follow`: what the upstream changes is in force, and is told. `hold`: it waits for an operator. */
export type ToolChanges = (typeof TOOL_CHANGES)[number];

export const TOOL_LEVELS = ['declared', 'annotations'] as const;

/** What a server may learn about the person who calls. */
export const CALLER_CLAIMS = ['name', 'email', 'groups', 'issuer', 'subject', 'provider'] as const;

export type CallerClaim = (typeof CALLER_CLAIMS)[number];

const callerClaim = z.enum(CALLER_CLAIMS, `one of ${CALLER_CLAIMS.join(', ')}`);

/** `upstreams.ts` checks the names of `headers`. */
const callerSchema = z.strictObject({
  claims: z
    .array(callerClaim)
    .refine(isDistinct, 'each claim once')
    .default([])
    .describe(
      'Claims about the person that `Gatehouse-Caller` has besides `sub`: `name`, `email` (only a verified address), `groups`, `issuer` and `subject` (of the person at the identity provider), `provider` (its id in these settings). The consent page names them, and a connection gives those that it named: after adding one, people must connect again. Machines and minted tokens have none.',
    ),
  headers: z
    .record(
      z.string().min(1).max(128),
      z.enum([...CALLER_CLAIMS, 'sub'], `sub or one of ${CALLER_CLAIMS.join(', ')}`),
    )
    .default({})
    .meta({
      description:
        'For servers that cannot verify a JWT: headers with one of `claims`, or `sub`, each, such as `X-User-Email: email`. The server must refuse every request that does not come from Gatehouse. Values are printable ASCII; everything else, `%`, and a comma within a group are percent-encoded.',
      valueType: 'header names with claims',
    }),
});

const MAX_PATTERN_LENGTH = 1024;
const pattern = z.string().min(1).max(MAX_PATTERN_LENGTH);

/** Durations in seconds. `url` is not normalised, because it is the audience of the caller header. */
export const upstreamSchema = z.strictObject({
  name: z.string().min(1).max(80).optional().meta({
    description:
      'Name in the console and in commands, and on the consent page if `caller.claims` are set.',
    defaultText: 'the host of `url`; on the consent page, the name of the connector',
  }),
  url: upstreamUrl.describe(
    'Address of the MCP server. Production requires https unless it is on this computer. Redirects are not followed.',
  ),
  privateNetwork: z
    .boolean()
    .default(false)
    .describe('Accept plain http in production, for a network that nobody else can listen on.'),
  host: z
    .string()
    .regex(HOST, 'a host, with a port or without, such as localhost:8000')
    .optional()
    .meta({
      description:
        'The `Host` header that is sent, for a server that accepts only its own names, such as `localhost:8000`. With https, the certificate must be for this name.',
      defaultText: 'that of `url`',
    }),
  headers: z.record(z.string().min(1).max(128), headerValue).default({}).meta({
    description:
      'Headers of every request to the upstream, such as `Authorization: {env: TOOLS_AUTHORIZATION}`. A value is a text, `{env: <variable>}` or `{file: <path>}`, read at the start and at a reload, and never shown. Headers that Gatehouse or the connection sets are refused.',
    valueType: 'header names with values',
  }),
  paused: z
    .boolean()
    .default(false)
    .describe(
      'Pauses the connectors and minted tokens of the upstream: calls get a tool error, nothing is forwarded, and nobody can connect. Refreshes work, so nobody has to connect again.',
    ),
  timeout: upstreamTimeout
    .prefault('60s')
    .describe(
      'Time until the upstream responds or starts a stream, at most `1h`. After that, the caller gets 504.',
    ),
  silence: upstreamTimeout
    .prefault('5m')
    .describe('Idle time after which a stream is closed, at most `1h`.'),
  maxAnswerBytes: wholeNumber(1024, 256 * MEGABYTE)
    .default(16 * MEGABYTE)
    .describe('Maximum size of a response, and of one event of a stream.'),
  openCalls: z
    .strictObject({
      perCaller: wholeNumber(1, 100_000)
        .default(100)
        .describe('For one person or one minted token, in all processes together.'),
      inAll: wholeNumber(1, 100_000)
        .default(5000)
        .describe('For all callers together, in each process.'),
    })
    .prefault({})
    .describe(
      'Maximum number of concurrent calls and streams, counted before their bodies are read. Streams that only wait for notifications may use four fifths of it. Above it, calls get an error that says when to try again, and streams 503.',
    ),
  defaultLevel: levelId.optional().meta({
    description:
      'Level required for tools, resources and prompts that are not in `tools`, `resources` and `prompts`, and for other methods.',
    defaultText: 'the highest level',
  }),
  toolLevels: z
    .enum(TOOL_LEVELS)
    .default('declared')
    .describe(
      'Level of the tools that are not in `tools`. `declared`: `defaultLevel`. `annotations`: a tool that the upstream annotates with `readOnlyHint: true` needs the lowest level, one with `readOnlyHint: false` and `destructiveHint: false` the second of three or more, and every other the highest. With `annotations`, you trust what the upstream says about its tools.',
    ),
  tools: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(128).describe('Name of the tool, as in `tools/list`.'),
        level: levelId.describe('Level required to call the tool.'),
        calls: rate.optional().meta({
          description: 'Limit on the calls of the tool by one connection, such as `60/1m`.',
          defaultText: 'none',
        }),
      }),
    )
    .refine((tools) => isDistinct(tools.map(({ name }) => name)), 'a unique name for each')
    .default([])
    .describe(
      'Level of each tool. Tools above the level of a connect link are hidden from its callers.',
    ),
  resources: z
    .array(
      z.strictObject({
        uri: pattern.describe(
          'URI or URI template of the resource, as the server lists it. `*` stands for any characters, `/` included.',
        ),
        level: levelId.describe('Level required to read the resource.'),
      }),
    )
    .refine((resources) => isDistinct(resources.map(({ uri }) => uri)), 'a unique uri for each')
    .default([])
    .describe(
      'Level of resources, also for subscriptions and completions. An entry without `*` wins, then the highest level of those that match. Others need `defaultLevel`.',
    ),
  prompts: z
    .array(
      z.strictObject({
        name: pattern.describe(
          'Name of the prompt, as in `prompts/list`. `*` stands for any characters.',
        ),
        level: levelId.describe('Level required to get the prompt.'),
      }),
    )
    .refine((prompts) => isDistinct(prompts.map(({ name }) => name)), 'a unique name for each')
    .default([])
    .describe('Level of prompts, as `resources`.'),
  toolChanges: z
    .enum(TOOL_CHANGES)
    .default('follow')
    .describe(
      'What happens when the upstream changes its tools or its instructions. `follow`: the change is in force, and is told in the console, the audit log and the metrics. `hold`: the tools of the first reading are approved; a tool that is new or changed later is hidden, and calls of it are refused, until an operator approves it.',
    ),
  validateArguments: z
    .union([z.boolean(), z.literal('warn')], 'true, warn or false')
    .optional()
    .meta({
      description:
        'Whether arguments of tools must fit the input schema of the tool. `warn` counts and logs violations, and forwards the call.',
      valueType: 'true, false or warn',
      defaultText: '`true` with `toolChanges: hold`, else `false`',
    }),
  caller: callerSchema
    .prefault({})
    .describe('What the server learns about the person who calls, besides an id of the account.'),
  credential: credentialSchema.optional().meta({
    description:
      "How a call gets a credential of the person who makes it, which is sent in place of an operator's ([members](../src/credentials/README.md#members)).",
    valueType: '`kind` with its members',
  }),
});

export type UpstreamInFile = z.output<typeof upstreamSchema>;

const MAX_UPSTREAMS = 50;

const upstreamsSchema = z
  .array(
    z.strictObject({
      id: shortId.describe('Id that connectors and minted tokens name.'),
      ...upstreamSchema.shape,
    }),
  )
  .min(1)
  .max(MAX_UPSTREAMS, `at most ${MAX_UPSTREAMS} upstreams`)
  .refine(haveOwnIds, 'a unique id for each');

export const settingsSchema = z.strictObject({
  productName: z.string().min(1).max(60).default('Gatehouse').describe('Name on every page.'),
  supportContact: z
    .string()
    .max(200)
    .optional()
    .describe('Contact shown on error pages, such as an email address.'),
  links: z
    .array(
      z.strictObject({
        label: z.string().min(1).max(60).describe('Text of the link.'),
        href: linkAddress.describe('Target of the link.'),
      }),
    )
    .max(5, 'at most 5 links')
    .default([])
    .describe('Links in the footer of every page, at most 5.'),
  theme: z.string().min(1).optional().meta({
    description:
      'Directory with your own logo, colours, texts, languages and templates ([views](../views/README.md)).',
    valueType: 'path',
  }),
  authUrl: origin.describe(
    'Public address of the authorization server, and its issuer, byte for byte. Changing it signs everybody out.',
  ),
  resourceUrl: origin.describe(
    'Public address of the resource server. Connect links start with it, so changing it invalidates all of them. May equal `authUrl`.',
  ),
  managementUrl: origin
    .default('http://127.0.0.1:4002')
    .describe(
      'Address of the management console and API. Keep it off the internet. Plain http is accepted only on this computer.',
    ),
  listen: z
    .strictObject({
      auth: address
        .optional()
        .meta({ description: 'Authorization server.', defaultText: 'from `authUrl`' }),
      resource: address
        .optional()
        .meta({ description: 'Resource server.', defaultText: 'from `resourceUrl`' }),
      management: address
        .optional()
        .meta({ description: 'Management console and API.', defaultText: 'from `managementUrl`' }),
      developmentIdp: address.optional().meta({
        description: 'Development identity provider.',
        defaultText: 'from `developmentIdp.url`',
      }),
      metrics: address.optional().meta({
        description:
          'Metrics (`/metrics`) and health, without authentication. Keep it off the internet.',
        defaultText: 'none; the management listener serves `/metrics` with the management key',
      }),
    })
    .prefault({})
    .describe(
      'Addresses to listen on. The default is the port of the public address (80 or 443 if it has none), on 127.0.0.1 if that address is on this computer and otherwise on every interface. Gatehouse serves plain http, so an https address usually needs a listener of its own.',
    ),
  roles: z
    .array(role)
    .min(1)
    .default([...ROLES])
    .transform((roles) => [...new Set(roles)])
    .describe(
      'Roles of this process. Fewer than all roles require Redis. The environment variable takes a comma-separated list or `all`.',
    ),
  store: z.string().transform(parseStoreAddress).prefault('sqlite:gatehouse.sqlite').meta({
    description:
      'Database: `sqlite:<file>` (relative to `dataDir`; one process with all roles), `redis://host:port`, `rediss://host:port` (TLS), `redis+sentinel://host:port,host:port/<name>` or `redis+cluster://host:port,host:port` ([redis.md](redis.md)). Put an address with a password into the environment variable, `secretFile` or the file of `GATEHOUSE_STORE_FILE`.',
    valueType: 'store address',
  }),
  storeId: z
    .string()
    .regex(/^[\w-]{1,64}$/, 'up to 64 letters, digits, - and _')
    .optional()
    .describe(
      'Id of the store, which the log has when the store is created, and doctor reports. A start with another store, or with a new, empty one, is refused ([how](operating.md#the-store-of-a-deployment)).',
    ),
  dataDir: z.string().min(1).default('.data').meta({
    description:
      'Directory of the embedded store and of generated secrets. The default is in the current folder.',
    valueType: 'path',
  }),
  secretFile: z.string().min(1).optional().meta({
    description:
      'File with the root secret alone, or with several secrets as lines `NAME=value` ([names](README.md#secrets)). Environment variables take precedence.',
    valueType: 'path',
  }),
  logLevel: z.enum(LOG_LEVELS).default('info').describe('Minimum level of log entries.'),
  audit: z
    .strictObject({
      calls: z
        .enum(['all', 'recorded'], 'all or recorded')
        .default('all')
        .describe(
          'Which calls are in the audit log: all that need a level, or those of levels that are `recorded`.',
        ),
      addresses: z
        .enum(['full', 'shortened', 'none'], 'full, shortened or none')
        .default('full')
        .describe(
          'What the audit log has of the IP addresses of calls. `shortened`: the network, an IPv4 /24 or an IPv6 /48.',
        ),
      log: z
        .boolean(YES_OR_NO)
        .default(false)
        .describe(
          'Also write each item of the audit log to the log, as one JSON line with the member `audit`, whatever `logLevel` is. The lines name people by account id and contain the arguments of recorded calls, so the log must be as protected as the store.',
        ),
      keep: duration
        .prefault('400d')
        .describe('How long items are kept, other than calls of levels that are not `recorded`.'),
      keepCalls: z
        .strictObject({
          time: duration.prefault('90d').describe('How long they are kept.'),
          items: wholeNumber(1000, 100_000_000).optional().meta({
            description:
              'How many are kept: if there are more, the connection with the most loses first. A million take about 0.75 GB ([memory](operating.md#the-audit-log)).',
            defaultText: '1000000 with SQLite, 200000 with Redis',
          }),
        })
        .prefault({})
        .describe('Calls of levels that are not `recorded`: the stricter of the two holds.'),
      delivery: deliverySchema,
      keepUndelivered: wholeNumber(1000, 100_000_000)
        .default(2_000_000)
        .describe(
          'Number of items that are kept beyond their time because a target of `delivery` does not have them yet.',
        ),
    })
    .prefault({})
    .describe('The audit log.'),
  observability: z
    .strictObject({
      traces: z
        .boolean(YES_OR_NO)
        .default(false)
        .describe(
          'Send traces to an OpenTelemetry collector (OTLP over HTTP, JSON). The [OTEL_… variables](operating.md#traces) set address and sampling.',
        ),
      privateNetwork: z
        .boolean(YES_OR_NO)
        .default(false)
        .describe(
          'Accept plain http to the collector in production, for a network that nobody else can listen on.',
        ),
    })
    .prefault({})
    .describe('Traces.'),
  proxies: wholeNumber(0, 5)
    .default(0)
    .describe(
      'Number of proxies in front of Gatehouse that add to `X-Forwarded-For`. If it is too low, all clients share one address and its rate limit; if it is too high, clients can forge their address.',
    ),
  workers: z
    .union(
      [wholeNumber(1, MAX_WORKERS), z.literal('auto')],
      `a whole number from 1 to ${MAX_WORKERS}, or auto`,
    )
    .optional()
    .meta({
      description:
        'Number of processes that share the listeners and use one core each, under one supervisor; `auto` is one for each core. Only with Redis. Without it, one process without a supervisor.',
      valueType: '`auto` or number from 1 to 128',
    }),
  drain: duration.optional().meta({
    description:
      'How long a process accepts requests after `SIGTERM` while `/readyz` fails. Allow the time that your load balancer needs to notice.',
    defaultText: '`5s` in production, otherwise none',
  }),

  identityProvider: identityProviderSchema
    .optional()
    .describe(
      'The identity provider where people sign in. Its redirect URI is `{authUrl}/interaction/callback`. Exactly one of `identityProvider`, `identityProviders` and `developmentIdp` is required.',
    ),
  identityProviders: identityProvidersSchema.optional().meta({
    description:
      'Several identity providers, in place of `identityProvider`, each with an `id` and the settings of `identityProvider`. People choose on a page, in this order. Each redirect URI is `{authUrl}/interaction/callback/<id>`. An account belongs to one provider.',
    sameAs: 'identityProvider',
  }),
  developmentIdp: z
    .strictObject({
      url: origin.describe('Address of the provider.'),
      people: z
        .array(person)
        .min(1)
        .refine(haveOwnIds, 'a unique id for each')
        .describe('People to choose from on its page.'),
      stepUp: stepUpSchema
        .optional()
        .describe(
          'As `identityProvider.stepUp`, to try it. Choosing a person is a sign-in of the first of the requested classes.',
        ),
    })
    .optional()
    .describe(
      'Embedded identity provider without passwords, for development only, in place of `identityProvider`.',
    ),
  levels: levelsSchema
    .default(() => DEFAULT_LEVELS.map((level) => ({ ...level })))
    .meta({
      description:
        'The permission levels, the lowest first, at most 8. Each includes those before it. Without texts, pages show neutral ones. A connector, grant or token whose level is removed gives no access.',
      defaultText: '`analytics`, `operations`, `admin`, `full` (recorded)',
    }),
  entitlements: z
    .array(entitlement, 'a list of rules, each with match and level')
    .min(1)
    .describe(
      'Who may have which level: the highest level of all rules that match. People without a matching rule get no access.',
    ),

  authorization: z
    .strictObject({
      defaultConnector: z.string().min(1).optional().meta({
        description: 'Id or name of the connector for clients that send no `resource`.',
        defaultText: 'none: such requests are refused',
      }),
      requireDpop: levelId.optional().meta({
        description:
          'Tokens of this level and above must be bound to a key of the app (DPoP, RFC 9449). An app without DPoP gets the next lower level; if there is none, it cannot connect. Minted tokens are exempt.',
        defaultText: 'none; every app may use DPoP',
      }),
      deviceGrant: z
        .boolean(YES_OR_NO)
        .default(true)
        .describe(
          'Accept apps on devices without a browser (RFC 8628): the device shows a code, and the person enters it at `/device`. With `false`, the endpoint and the page do not exist.',
        ),
      introspectionClients: z
        .array(introspectionClient)
        .refine(haveOwnIds, 'a unique id for each')
        .default([])
        .describe(
          'Resource servers that may introspect tokens at `/oauth/introspect` (RFC 7662). Without any, the endpoint does not exist.',
        ),
      trustedIssuers: z
        .array(trustedIssuerSchema)
        .refine(
          (issuers) => isDistinct(issuers.map(({ issuer }) => comparableIssuer(issuer))),
          'a unique issuer for each',
        )
        .default([])
        .describe(
          'Identity providers whose assertions (ID-JAG) give apps an access token without a browser or a consent page. Only entitlements with `provider: <id>` apply to their people.',
        ),
    })
    .prefault({})
    .describe('Authorization and token requests.'),
  clients: z
    .strictObject({
      registration: z
        .enum(['open', 'approval', 'closed'], 'open, approval or closed')
        .default('open')
        .describe(
          'Which apps may connect besides those in these settings. `open`: every app that registers itself or has a metadata document. `approval`: these, once an administrator allows them. `closed`: none; metadata documents need an entry in `metadataDocuments` or `metadataDocumentHosts`. Apps that are already connected go on.',
        ),
      apps: z
        .array(
          z.string().refine(isAppId, {
            error: () =>
              `one of ${appCatalog()
                .map(({ id }) => id)
                .join(', ')}`,
          }),
        )
        .default(['claude'])
        .describe(
          'Apps of the [catalogue](clients.md#apps-of-the-catalogue) whose redirect URIs are accepted. This is the whole list. Apps on a person’s own computer need no entry.',
        ),
      hostedCallbacks: z
        .array(allowedRedirect)
        .default([])
        .describe('Another name for entries of `allowedRedirects`.'),
      allowedRedirects: z
        .array(allowedRedirect)
        .default([])
        .describe(
          'Other redirect URIs, compared exactly. An https address that ends in `/*` accepts one more path segment in its place.',
        ),
      preRegistered: z
        .array(preRegisteredClient)
        .refine(haveOwnIds, 'a unique id for each')
        .default([])
        .describe('Clients that do not register themselves.'),
      metadataDocuments: z
        .array(
          z.strictObject({
            url: httpsUrl.describe('Client id, the address of the document.'),
            document: z
              .record(z.string(), z.unknown())
              .describe('Content of the document.')
              .meta({ valueType: 'object' }),
          }),
        )
        .default([])
        .describe(
          'Client ID metadata documents to use without fetching them, for networks that do not allow it.',
        ),
      metadataDocumentHosts: z.array(documentHost).optional().meta({
        description:
          'The only hosts, or address prefixes that end with `/`, from which client ID metadata documents are accepted, besides `metadataDocuments`. An empty list accepts none. Paths are compared decoded; an address that encodes `/`, `\\`, `.` or `%` matches no prefix.',
        defaultText: 'every host',
      }),
    })
    .prefault({})
    .describe(
      'Apps that may connect, and their redirect URIs. Loopback http redirect URIs are always accepted.',
    ),
  consent: z
    .strictObject({
      stayConnected: z
        .enum(['offered', 'on-request'])
        .default('offered')
        .describe(
          '`offered`: a checkbox, initially ticked, decides whether the app gets a refresh token. `on-request`: no checkbox; apps that request a refresh token get one.',
        ),
    })
    .prefault({})
    .describe('The consent page.'),
  lifetimes: lifetimes.prefault({}).describe('How long tokens, sessions and registrations last.'),
  limits: limitsSchema.describe(
    'Rate limits. Above a limit, requests get 429 with `Retry-After`; tokens and connections are not affected. `perAddress` applies to one IPv4 address or one IPv6 /64 network (a /56 gets four times, a /48 eight times as much), so `proxies` must be right. `inAll` applies to all addresses together: above it, each address gets a tenth of `perAddress`, and above ten times `inAll` only addresses are accepted whose network (IPv4 /16, IPv6 /32) has not taken part in the flood, once more up to `inAll`. The defaults are a hundred times as high in development. Processes count together in Redis, and each for itself while Redis is unreachable.',
  ),
  management: z
    .strictObject({
      administrators: z
        .array(administrator)
        .default([])
        .describe(
          'Administrators of the console at `{managementUrl}/console`: everybody whom one of the rules matches. Each rule has exactly one criterion. The redirect URI at the identity provider is `{managementUrl}/console/callback`, or `{managementUrl}/console/callback/<id>` with several. Without administrators, there is no console.',
        ),
      keys: z
        .array(managementKey)
        .refine((keys) => isDistinct(keys.map(({ name }) => name)), 'a unique name for each')
        .default([])
        .describe(
          'Keys of the management API for people and programs, each with a role, beside the one that `GATEHOUSE_MANAGEMENT_KEY` sets or the data directory contains, which has the role administrator. Read by processes with the management role. To withdraw a key, remove its entry and reload.',
        ),
    })
    .prefault({})
    .describe('The management console and API.'),
  resourceServer: z
    .strictObject({
      allowedOrigins: z
        .array(webOrigin)
        .default([])
        .describe(
          'Origins of other web pages that may call the resource server from a browser, also of browser extensions (`chrome-extension://<id>`) and of apps that show pages (`tauri://localhost`). Each is compared as a whole.',
        ),
      maxBodyBytes: wholeNumber(1024, 64 * MEGABYTE)
        .default(MEGABYTE)
        .describe('Maximum size of an MCP message.'),
      heartbeat: duration
        .refine((seconds) => seconds <= MAX_HEARTBEAT_SECONDS, 'at most 10m')
        .prefault('25s')
        .describe(
          'Time after which a comment is sent on an idle event stream, at most `10m`. Proxies in front cut idle streams, often after 60 s. Streams that wait for notifications begin with a comment.',
        ),
      heldBytes: z
        .strictObject({
          perCaller: wholeNumber(MEGABYTE, 1024 * MEGABYTE)
            .default(32 * MEGABYTE)
            .describe('For one person or one minted token.'),
          inAll: wholeNumber(MEGABYTE, 4096 * MEGABYTE)
            .default(128 * MEGABYTE)
            .describe('For all callers together.'),
        })
        .prefault({})
        .describe(
          'Maximum number of bytes of messages that a process holds at the same time: requests, from before they are read, and responses that apps have not read yet. Above it, requests and responses wait for 5 s, and are then refused. One message always fits, however large the other limits allow it to be. Messages of up to 16 kB are not counted.',
        ),
      upstream: upstreamSchema.optional().meta({
        description:
          'Your own MCP server (Streamable HTTP), which receives the authorized calls with the caller in `Gatehouse-Caller`, a signed JWT. It never receives the token of the caller ([details](../src/gateway/upstream/README.md)).',
        defaultText: 'the built-in sample',
      }),
      upstreams: upstreamsSchema.optional().meta({
        description:
          'Several MCP servers, in place of `upstream`, each with an `id` and the settings of `upstream`. A connector and a minted token lead to one of them, by default the first. `upstream` has the id `default`; connectors from before there were ids lead to the upstream with this id. If an upstream is removed, its connect links and minted tokens stop working.',
        sameAs: 'resourceServer.upstream',
      }),
    })
    .prefault({})
    .describe('The resource server.'),
});

/** The parsed settings file: durations in seconds, store and listen addresses split. */
export type SettingsFile = z.output<typeof settingsSchema>;
