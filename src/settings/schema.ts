// What can be set, with defaults and limits: the one schema of the settings file.
import { z } from 'zod';
import { LEVELS } from '../permission-level.ts';
import { limits } from './limits.ts';
import { observability } from './observability.ts';
import { emailDomain, identityProvider, identityProviders } from './identity-provider-schema.ts';
import { isRedirectUri, REDIRECT_URI } from './redirect-uri.ts';
import { parseStoreAddress } from './store-address.ts';
import { trustedIssuer } from './trusted-issuers.ts';
import { upstream } from './upstream.ts';
import {
  address,
  comparableIssuer,
  duration,
  isDistinct,
  origin,
  shortId,
  wholeNumber,
} from './value-types.ts';

export const ROLES = ['authorization-server', 'resource-server', 'management'] as const;
export const role = z.enum(ROLES);
export type Role = z.output<typeof role>;

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const email = z.email('an e-mail address');

/** An organization of GitHub: `login#id`, which matches the numeric id, or the login alone, which can change hands. */
const organization = z
  .string()
  .regex(
    /^[A-Za-z0-9][\w-]{0,99}(#[1-9]\d{0,15})?$/,
    'the login of an organization and its numeric id, such as example-corp#1234567',
  );

/** Whom a rule is for. */
const people = {
  subject: z.string().min(1).optional(),
  email: email.optional(),
  emailDomain: emailDomain.optional(),
  group: z.string().min(1).optional(),
  organization: organization.optional(),
  /** The id of the sign-in provider or trusted issuer that has to assert it. */
  provider: z.string().min(1).optional(),
};

function isOneWay(match: object): boolean {
  return Object.keys(match).filter((key) => key !== 'provider').length === 1;
}

/** Which people may hold which level: the highest level of the rules that match; no match is no access. */
const entitlement = z.strictObject({
  match: z
    .strictObject({ anyone: z.literal(true).optional(), ...people })
    .refine(isOneWay, 'exactly one of anyone, subject, email, emailDomain, group, organization'),
  level: z.enum(LEVELS),
});
/** As written; `entitlements.ts` has the rules as they count. */
export type RuleInFile = z.output<typeof entitlement>;

/** Who may use the console: never everybody. */
const administrator = z
  .strictObject(people)
  .refine(isOneWay, 'exactly one of subject, email, emailDomain, group, organization');

const linkAddress = z.url({
  protocol: /^(https|mailto)$/,
  error: 'an https or mailto address',
});
const httpsUrl = z.url({ protocol: /^https$/, error: 'an https address' });
const redirectUri = z.string().refine(isRedirectUri, REDIRECT_URI);

/** A path has to end with a slash, because what begins alike is not below it, and has no dot segments, which URLs lose when they are parsed. */
const documentHost = z
  .string()
  .regex(
    /^([a-z0-9-]+\.)+[a-z][a-z0-9-]*(\/((?!\.+\/)[\w.~-]+\/)*)?$/,
    'a host such as app.example.com, or one with a path that ends with /',
  );

function haveOwnIds(records: readonly { id: string }[]): boolean {
  return isDistinct(records.map(({ id }) => id));
}

const clientId = z
  .string()
  .regex(/^[\w.-]{3,64}$/, '3 to 64 letters, digits, dots, dashes or underscores');

const preRegisteredClient = z.strictObject({
  id: clientId,
  name: z.string().min(1).max(80),
  redirectUris: z.array(redirectUri).min(1),
  secret: z.string().min(32).optional(),
});

const introspectionClient = z.strictObject({
  id: clientId,
  secret: z.string().min(32),
});

const person = z.strictObject({
  id: shortId,
  name: z.string().min(1),
  email,
  groups: z.array(z.string()).default([]),
});

const ACCESS_TOKEN = { least: 60, most: 86_400 };

const lifetimes = z
  .strictObject({
    accessToken: duration
      .refine((ttl) => ttl >= ACCESS_TOKEN.least && ttl <= ACCESS_TOKEN.most, 'from 60s to 24h')
      .prefault('1h'),
    refreshTokenIdle: duration.prefault('30d'),
    refreshTokenAbsolute: duration.prefault('90d'),
    session: duration.prefault('12h'),
    unusedClient: duration.prefault('24h'),
    usedClient: duration.prefault('90d'),
  })
  .refine((ttl) => ttl.accessToken <= ttl.refreshTokenIdle, {
    path: ['refreshTokenIdle'],
    error: 'no less than lifetimes.accessToken (1h unless set)',
  })
  .refine((ttl) => ttl.refreshTokenIdle <= ttl.refreshTokenAbsolute, {
    path: ['refreshTokenAbsolute'],
    error: 'no less than lifetimes.refreshTokenIdle (30d unless set)',
  });

export const settingsSchema = z.strictObject({
  productName: z.string().min(1).max(60).default('Gatehouse'),
  supportContact: z.string().max(200).optional(),
  links: z
    .array(z.strictObject({ label: z.string().min(1).max(60), href: linkAddress }))
    .max(5, 'at most 5 links')
    .default([]),
  theme: z.string().min(1).optional(),
  authUrl: origin,
  resourceUrl: origin,
  managementUrl: origin.default('http://127.0.0.1:4002'),
  listen: z
    .strictObject({
      auth: address.optional(),
      resource: address.optional(),
      management: address.optional(),
      developmentIdp: address.optional(),
      metrics: address.optional(),
    })
    .prefault({}),
  roles: z
    .array(role)
    .min(1)
    .default([...ROLES])
    .transform((roles) => [...new Set(roles)]),
  store: z.string().transform(parseStoreAddress).prefault('sqlite:gatehouse.sqlite'),
  dataDir: z.string().min(1).default('.data'),
  logLevel: z.enum(LOG_LEVELS).default('info'),
  observability,
  proxies: wholeNumber(0, 5).default(0),
  drain: duration.optional(),

  identityProvider: identityProvider.optional(),
  identityProviders: identityProviders.optional(),
  developmentIdp: z
    .strictObject({
      url: origin,
      people: z.array(person).min(1).refine(haveOwnIds, 'an id of its own for each'),
    })
    .optional(),
  entitlements: z.array(entitlement, 'a list of rules, each with match and level').min(1),

  authorization: z
    .strictObject({
      defaultConnector: z.string().min(1).optional(),
      introspectionClients: z
        .array(introspectionClient)
        .refine(haveOwnIds, 'an id of its own for each')
        .default([]),
      trustedIssuers: z
        .array(trustedIssuer)
        .refine(
          (issuers) => isDistinct(issuers.map(({ issuer }) => comparableIssuer(issuer))),
          'an issuer of its own for each',
        )
        .default([]),
    })
    .prefault({}),
  clients: z
    .strictObject({
      hostedCallbacks: z
        .array(httpsUrl.refine(isRedirectUri, REDIRECT_URI))
        .default([
          'https://claude.ai/api/mcp/auth_callback',
          'https://claude.com/api/mcp/auth_callback',
        ]),
      allowedRedirects: z.array(redirectUri).default([]),
      preRegistered: z
        .array(preRegisteredClient)
        .refine(haveOwnIds, 'an id of its own for each')
        .default([]),
      metadataDocuments: z
        .array(z.strictObject({ url: httpsUrl, document: z.record(z.string(), z.unknown()) }))
        .default([]),
      metadataDocumentHosts: z.array(documentHost).optional(),
    })
    .prefault({}),
  consent: z
    .strictObject({ stayConnected: z.enum(['offered', 'on-request']).default('offered') })
    .prefault({}),
  lifetimes: lifetimes.prefault({}),
  limits,
  management: z.strictObject({ administrators: z.array(administrator).default([]) }).prefault({}),
  resourceServer: z
    .strictObject({
      allowedOrigins: z.array(origin).default([]),
      maxBodyBytes: wholeNumber(1024, 64 * 1024 * 1024).default(1024 * 1024),
      upstream: upstream.optional(),
    })
    .prefault({}),
});

/** The settings file as parsed: durations in seconds, addresses split. */
export type SettingsFile = z.output<typeof settingsSchema>;
