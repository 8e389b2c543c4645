// Settings of sign-in providers (OpenID Connect, GitHub) and of trusted issuers (ID-JAG).
import * as z from 'zod';
import {
  comparableIssuer,
  duration,
  isDistinct,
  isSameIssuer,
  issuer,
  shortId,
} from './value-types.ts';
import { workloadsSchema } from './workloads.ts';

export const emailDomain = z
  .string()
  .regex(/^[\w-]+(\.[\w-]+)+$/, 'a domain such as example.com')
  .meta({ valueType: 'domain' });

const MIN_RECHECK_SECONDS = 60;
const MIN_MAX_AGE_SECONDS = 60;

/** What a sign-in must be to approve certain levels (OpenID Connect Core section 3.1.2.1: `max_age`, `acr_values`). */
export const stepUpSchema = z
  .strictObject({
    levels: z
      .array(z.string().min(1))
      .min(1)
      .describe('Levels that need it, ids of `levels`. Every level above them needs it too.'),
    maxAge: duration
      .refine((seconds) => seconds >= MIN_MAX_AGE_SECONDS, 'at least 1m, or 60s')
      .optional()
      .meta({
        description:
          'Longest time since the person signed in at the provider, at least `1m`. Sent as `max_age`, checked in the claim `auth_time` of the ID token.',
        defaultText: 'any; required without `acrValues`',
      }),
    acrValues: z.array(z.string().regex(/^\S+$/, 'a value without spaces')).min(1).optional().meta({
      description:
        'Accepted classes of sign-in, the preferred one first. Sent as `acr_values`, checked in the claim `acr` of the ID token.',
      defaultText: 'any; required without `maxAge`',
    }),
  })
  .refine(({ maxAge, acrValues }) => maxAge !== undefined || acrValues !== undefined, {
    path: ['maxAge'],
    error: 'a duration, unless acrValues is set: a step-up sign-in needs at least one of them',
  });

/** `maxAge` is in seconds. */
export type StepUp = z.output<typeof stepUpSchema>;

const properties = {
  id: shortId
    .default('default')
    .describe('Identifies the provider in rules (`provider`) and, in a list, in its callback URL.'),
  kind: z
    .enum(['openid', 'github'])
    .default('openid')
    .describe('Protocol: OpenID Connect, or OAuth at GitHub.'),
  name: z.string().min(1).max(60).optional().meta({
    description: 'Name on the pages.',
    defaultText: '“your company account” in the language of the page',
  }),
  issuer: issuer.optional().meta({
    description:
      'Issuer, exactly as in the discovery document. Production requires https. With `github`, the address of a GitHub Enterprise Server.',
    defaultText: 'required; `https://github.com` with `github`',
  }),
  clientId: z.string().min(1).describe('Client id that the provider issued to Gatehouse.'),
  clientSecret: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Client secret that the provider issued to Gatehouse, if any. Prefer the environment variable or `clientSecretFile`.',
    ),
  clientSecretFile: z.string().min(1).optional().meta({
    description:
      'File that contains only the client secret. Either environment variable replaces both settings.',
    valueType: 'path',
  }),
  clientSecretExpires: z.iso.date('a day such as 2027-06-30').optional().meta({
    description:
      'Day on which the client secret ends at the provider. From 14 days before, doctor, the console and `/metrics` say so.',
    valueType: 'day',
    defaultText: 'none',
  }),
  clientAuthentication: z.enum(['client_secret_basic', 'client_secret_post']).optional().meta({
    description:
      'How the client secret is sent. Some providers list both ways and accept only one of them for a client. Not for `github`.',
    defaultText:
      '`client_secret_basic`, unless the discovery document lists ways without it; then `client_secret_post`',
  }),
  pkce: z.boolean().optional().meta({
    description:
      'Send a PKCE challenge. Turn it off only for a provider that refuses its parameters: codes are then bound to the sign-in by `nonce` alone. Not for `github`.',
    defaultText: '`true`',
  }),
  authorizationParameters: z
    .record(z.string().regex(/^[a-z][\w.-]{0,63}$/i), z.string().min(1))
    .optional()
    .meta({
      description:
        'Further parameters of the authentication request, with their values, for example `resource` or `domain_hint`. Not those that Gatehouse sets itself. Not for `github`.',
      valueType: 'parameters',
      defaultText: 'none',
    }),
  scopes: z.array(z.string().min(1)).optional().meta({
    description: 'Scopes to request.',
    defaultText:
      '`openid`, `profile`, `email`; with `github`: `read:user`, `user:email`, and `read:org` for `organizations`',
  }),
  groupsClaim: z.string().min(1).optional().meta({
    description:
      "Claim that lists the person's groups, in the ID token or from the UserInfo endpoint. A claim of this name, or a path with dots (`realm_access.roles`). It may be a list of names or of objects with a `name`, one name, or an object whose keys are names. Not for `github`.",
    defaultText: '`groups`',
  }),
  emailVerified: z.enum(['provider', 'always']).optional().meta({
    description:
      "When an email address counts as verified: if the provider says so (`email_verified`), or always, unless it says that it is not. `always` is only for a company's own directory that does not say it, such as one tenant of Microsoft Entra ID. Not for `github`.",
    defaultText: '`provider`',
  }),
  userInfo: z.boolean().optional().meta({
    description: 'Ask the UserInfo endpoint for claims that the ID token lacks. Not for `github`.',
    defaultText: '`true`',
  }),
  organizations: z.boolean().optional().meta({
    description:
      "With `github` only: read the person's organizations, for rules with `organization`.",
    defaultText: '`false`',
  }),
  switchAccountPrompt: z
    .enum(['login', 'select_account'])
    .default('login')
    .describe(
      'Value of `prompt` when a person uses another account. Google needs `select_account`.',
    ),
  emailDomains: z
    .array(emailDomain.toLowerCase())
    .default([])
    .describe(
      'Email domains that this provider owns. Rules about their addresses accept no other provider or trusted issuer. Subdomains are separate domains. With several providers, a `login_hint` in one of the domains goes directly to this provider. With `github`, a verified address in one of them is used in place of the primary address.',
    ),
  backchannelLogout: z.enum(['sessions', 'connections']).optional().meta({
    description:
      "What a logout token of the provider ends: the person's sessions, or also the connections of their apps. Register `{authUrl}/backchannel-logout` at the provider, in a list `{authUrl}/backchannel-logout/<id>`. Not for `github`.",
    defaultText: '`sessions`',
  }),
  recheck: duration
    .refine((seconds) => seconds >= MIN_RECHECK_SECONDS, 'at least 1m, or 60s')
    .optional()
    .meta({
      description:
        'Fetch the claims of a person again when an app refreshes its token, at most this often, at least `1m`. Entitlements follow, and connections end when the provider no longer accepts the person. Sessions of browsers, including the console, last no longer than this without such an answer. Adds `recheckScopes` to `scopes` and stores the refresh token, encrypted ([details](operating.md#recheck)).',
      defaultText: 'off',
    }),
  recheckScopes: z.array(z.string().min(1)).optional().meta({
    description:
      'Scopes that `recheck`, and a `credential` of the kind `exchange`, request besides `scopes`, for a refresh token; `[]` for none. Not for `github`.',
    defaultText:
      '`offline_access`, unless the discovery document lists scopes without it; none at Google',
  }),
  stepUp: stepUpSchema
    .optional()
    .describe(
      'Requires a recent sign-in, or one of a certain class, to approve the highest levels. Not for `github`. Assertions of a trusted issuer that is not a sign-in provider must meet it at every provider that has it.',
    ),
};

/** Parameters of the authentication request that the settings cannot override. */
const OWN_PARAMETERS =
  'acr_values client_id code_challenge code_challenge_method login_hint max_age nonce prompt redirect_uri request request_uri response_mode response_type scope state ui_locales'.split(
    ' ',
  );

const OPENID_ONLY = 'no value, because it is only for OpenID providers';

/** What is expected of settings that GitHub cannot have. */
const NOT_FOR_GITHUB = {
  groupsClaim:
    'no value, because GitHub has no claims; organizations: true reads the organizations of a person',
  emailVerified: 'no value, because GitHub says which addresses are verified',
  userInfo: 'no value, because GitHub has no UserInfo endpoint',
  backchannelLogout: 'no value, because GitHub sends no logout tokens',
  stepUp:
    'no value, because GitHub does not say when or how a person signed in; to require it, use an OpenID provider',
  clientAuthentication: OPENID_ONLY,
  pkce: OPENID_ONLY,
  authorizationParameters: OPENID_ONLY,
  recheckScopes: OPENID_ONLY,
} as const;

type ProviderInput = z.output<z.ZodObject<typeof properties>>;

/** The settings that exclude each other or depend on `kind`, with what is expected there. */
function conflictsIn(given: ProviderInput): [key: keyof ProviderInput, expected: string][] {
  const hasSecret = given.clientSecret !== undefined || given.clientSecretFile !== undefined;
  const own = Object.keys(given.authorizationParameters ?? {}).find((name) =>
    OWN_PARAMETERS.includes(name.toLowerCase()),
  );
  const notForGithub = Object.entries(NOT_FOR_GITHUB) as [keyof typeof NOT_FOR_GITHUB, string][];
  const isOpenid = given.kind === 'openid';
  const conflicts: [isWrong: boolean, key: keyof ProviderInput, expected: string][] = [
    [
      given.clientSecret !== undefined && given.clientSecretFile !== undefined,
      'clientSecretFile',
      'either clientSecret or clientSecretFile, not both',
    ],
    [isOpenid && given.issuer === undefined, 'issuer', 'the issuer of the OpenID provider'],
    [
      isOpenid && given.organizations !== undefined,
      'organizations',
      'no value, because only kind github has organizations',
    ],
    ...notForGithub.map(([key, expected]): [boolean, keyof ProviderInput, string] => [
      !isOpenid && given[key] !== undefined,
      key,
      expected,
    ]),
    [
      given.emailVerified === 'always' && isOpenToAnyTenant(given.issuer),
      'emailVerified',
      'provider, because at this issuer everybody can create a tenant and choose addresses in it; to use always, set issuer to that of your tenant',
    ],
    [
      isOpenid && given.clientAuthentication !== undefined && !hasSecret,
      'clientAuthentication',
      'no value without a client secret',
    ],
    [
      isOpenid && given.pkce === false && !hasSecret,
      'pkce',
      'true, because nothing else protects the code of a client without a secret',
    ],
    [
      own !== undefined,
      'authorizationParameters',
      `no ${own}, because Gatehouse sets this parameter itself`,
    ],
  ];
  return conflicts.filter(([isWrong]) => isWrong).map(([, key, expected]) => [key, expected]);
}

/** Shared issuers of Microsoft Entra ID. The id is that of the tenant of personal accounts. */
function isOpenToAnyTenant(issuer = ''): boolean {
  const tenant = /^https:\/\/login\.microsoftonline\.com\/([^/]+)/i.exec(issuer)?.[1] ?? '';
  return ['common', 'organizations', 'consumers', '9188040d-6c67-4c5b-b112-36a304b66dad'].includes(
    tenant.toLowerCase(),
  );
}

const OPENID_SCOPES = ['openid', 'profile', 'email'];
const GITHUB_SCOPES = ['read:user', 'user:email'];

/** Google has no scope `offline_access`, but a parameter `access_type=offline`. */
export function isGoogle(issuer: string): boolean {
  return isSameIssuer(issuer, 'https://accounts.google.com');
}

function withDefaults<Given extends ProviderInput>(given: Given, listed: boolean) {
  const isGithub = given.kind === 'github';
  const { organizations = false } = given;
  const github = [...GITHUB_SCOPES, ...(organizations ? ['read:org'] : [])];
  const issuer = given.issuer ?? (isGithub ? 'https://github.com' : '');
  return {
    ...given,
    listed,
    issuer,
    scopes: given.scopes ?? (isGithub ? github : OPENID_SCOPES),
    pkce: given.pkce ?? true,
    authorizationParameters: given.authorizationParameters ?? {},
    groupsClaim: given.groupsClaim ?? 'groups',
    emailVerified: given.emailVerified ?? ('provider' as const),
    userInfo: given.userInfo ?? true,
    organizations,
    backchannelLogout: given.backchannelLogout ?? ('sessions' as const),
  };
}

function checkConflicts(context: z.core.ParsePayload<ProviderInput>): void {
  for (const [key, message] of conflictsIn(context.value))
    context.issues.push({ code: 'custom', path: [key], message, input: context.value });
}

export const identityProviderSchema = z
  .strictObject(properties)
  .check(checkConflicts)
  .transform((given) => withDefaults(given, false));

const listedProvider = z
  .strictObject({
    ...properties,
    id: shortId.describe('Identifies the provider in rules (`provider`) and in its callback URL.'),
    name: z.string().min(1).max(60).describe('Name on the page where people choose a provider.'),
    clientSecret: properties.clientSecret.describe(
      'Client secret that the provider issued to Gatehouse, if any. Prefer `clientSecretFile`.',
    ),
    clientSecretFile: properties.clientSecretFile.describe(
      'File that contains only the client secret.',
    ),
  })
  .check(checkConflicts)
  .transform((given) => withDefaults(given, true));

/** Issuers are unique, because the issuer identifies responses and accounts. */
export const identityProvidersSchema = z
  .array(listedProvider)
  .min(1)
  .refine((list) => isDistinct(list.map(({ id }) => id)), 'a unique id for each')
  .refine(
    (list) => isDistinct(list.map((provider) => comparableIssuer(provider.issuer))),
    'a unique issuer for each',
  )
  .refine((list) => isDistinct(list.map(({ name }) => name)), 'a unique name for each')
  .refine(
    (list) => isDistinct(list.flatMap(({ emailDomains }) => emailDomains)),
    'each email domain at only one provider',
  );

const claim = z.string().min(1).max(200);

/** RFC 7517 section 4. `d` and `k` are private key material. */
const publicKey = z
  .record(z.string(), z.unknown())
  .refine(
    (jwk) => typeof jwk['kty'] === 'string' && !('d' in jwk) && !('k' in jwk),
    'a public key (JWK) with kty, and without d or k',
  )
  .meta({ valueType: 'JWK' });

/** A host, or an id like that of an identity provider. */
const trustedIssuerId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.:-]{0,252}$/, 'lower-case letters, digits, dots, colons or dashes');

const MAX_WORKLOAD_LIFETIME = 86_400;

export const trustedIssuerSchema = z
  .strictObject({
    id: trustedIssuerId.optional().meta({
      description: 'Identifies the issuer in rules (`provider`). Unique among all providers.',
      valueType: 'id',
      defaultText: 'the host of `issuer`',
    }),
    issuer: issuer.describe('Issuer, exactly as in its assertions. Production requires https.'),
    jwksUri: z
      .url({ protocol: /^https?$/, error: 'the address of its public keys' })
      .optional()
      .meta({
        description: 'Address of its public keys. Production requires https.',
        valueType: 'URL',
        defaultText:
          'from discovery, which needs `workloads`; required with `clients` unless `jwks` is set',
      }),
    jwks: z
      .strictObject({
        keys: z.array(publicKey).min(1).describe('Public keys, as in its JWK set.'),
      })
      .optional()
      .meta({
        description: 'Its public keys, for networks that do not allow fetching `jwksUri`.',
        defaultText: 'none',
      }),
    caFile: z.string().min(1).optional().meta({
      description:
        'File with the certificates (PEM) of the authority of the host of its keys, such as that of a cluster. Only they are trusted there. Read at each fetch.',
      valueType: 'path',
      defaultText: 'the authorities that this computer trusts',
    }),
    tokenFile: z.string().min(1).optional().meta({
      description:
        'File with a bearer token for fetching its keys, such as that of a service account. Sent only to the host of `jwksUri`, or without it of `issuer`. Read at each fetch.',
      valueType: 'path',
      defaultText: 'none',
    }),
    privateNetwork: z
      .boolean()
      .default(false)
      .describe(
        'With `workloads`: fetch its keys also from addresses that are not public, such as those of a cluster.',
      ),
    workloads: workloadsSchema,
    audiences: z.array(z.string().min(1)).default([]).meta({
      description:
        'Other audiences of JWTs of workloads, for platforms that cannot name this authorization server. The other audience can present the JWTs that it receives here.',
      valueType: 'text',
    }),
    maxLifetime: duration
      .refine((seconds) => seconds <= MAX_WORKLOAD_LIFETIME, 'at most 24h')
      .prefault('1h')
      .describe('Longest lifetime of JWTs of workloads, from `iat` to `exp`, at most `24h`.'),
    singleUse: z.boolean().default(false).describe('Accept each JWT of a workload once only.'),
    clients: z
      .array(z.string().min(1))
      .default([])
      .describe(
        'Clients that may present its assertions: ids from `clients.preRegistered` that have a secret or keys, or addresses of metadata documents.',
      ),
    tenant: z.string().min(1).optional().meta({
      description:
        'Tenant that its assertions must name, if the issuer serves several organizations.',
      defaultText: 'assertions must not name a tenant',
    }),
    claims: z
      .strictObject({
        subject: claim
          .default('sub')
          .describe('Claim with the subject, equal to the subject when the person signs in.'),
        name: claim.default('name').describe('Claim with the full name.'),
        email: claim.default('email').describe('Claim with the email address.'),
        emailVerified: claim
          .default('email_verified')
          .describe('Claim that is `true` if the email address is verified.'),
        groups: claim.default('groups').describe("Claim with the person's groups."),
      })
      .prefault({})
      .describe('Names of the claims in its assertions.'),
    emailIsVerified: z
      .boolean()
      .default(false)
      .describe('Treat email addresses as verified if the assertion does not say so.'),
  })
  .refine(({ clients, workloads }) => clients.length + workloads.length > 0, {
    path: ['clients'],
    error: 'clients, workloads or both',
  })
  .refine(
    ({ jwksUri, jwks, clients }) => {
      const given = [jwksUri, jwks].filter((keys) => keys !== undefined).length;
      return given === 1 || (given === 0 && clients.length === 0);
    },
    {
      path: ['jwksUri'],
      error: 'either jwksUri, the address of its public keys, or jwks, the keys',
    },
  )
  .transform((given) => ({ ...given, id: given.id ?? new URL(given.issuer).host }));

export type TrustedIssuer = z.output<typeof trustedIssuerSchema>;
