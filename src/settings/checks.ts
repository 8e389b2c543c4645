// Checks across settings: what must be consistent, and what production refuses.
import { isClientIdUrl } from './client-id-url.ts';
import { type Host, hosts, isLoopback, isLoopbackUrl } from './addresses.ts';
import type { Environment } from './environment.ts';
import { type IdentityProvider, providersIn } from './identity-provider.ts';
import { DEFAULT_LEVELS, levelIds, isLevel } from '../permission-levels.ts';
import type { TrustedIssuer } from './identity-provider-schema.ts';
import type { SettingsIssue } from './issues.ts';
import { isRedirectUri } from './redirect-uri.ts';
import { ROLES, type Role, type SettingsFile, type UpstreamInFile } from './schema.ts';
import {
  type Path,
  type Source,
  hidden,
  issueAt,
  pathName,
  settingName,
  valueAt,
} from './source.ts';
import { checkIssuerFiles, checkPublishedKeys } from './trusted-issuers.ts';
import { hasRole, upstreamsIn } from './upstreams.ts';
import { missingOwner } from './workloads.ts';
import { type Address, isSameIssuer } from './value-types.ts';

/** Checks that settings fit each other. `file` has the settings that are valid each for itself. */
export function checkConsistency(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  return [
    checkListeners,
    checkLevels,
    checkSampleLevels,
    checkStore,
    checkRedirects,
    checkClientIds,
    checkTrustedIssuers,
    checkMetadataDocuments,
    checkUpstreams,
    checkProviders,
  ].flatMap((check) => check(source, file));
}

function checkStore(
  source: Source,
  { store, roles, workers }: Partial<SettingsFile>,
): SettingsIssue[] {
  if (store?.kind === 'sqlite' && workers !== undefined) {
    const expected = 'a Redis store (setting store): SQLite supports only one process';
    return [issueAt(source, ['workers'], expected, String(workers))];
  }
  if (store?.kind !== 'sqlite' || !roles || roles.length === ROLES.length) return [];
  const expected = 'all roles, or a Redis store: SQLite supports only one process with all roles';
  return [issueAt(source, ['roles'], expected, roles.join(', '))];
}

/** A redirect URI on a Gatehouse host would send the code to a Gatehouse page. */
function checkRedirects(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const { hostedCallbacks = [], allowedRedirects = [], preRegistered = [] } = file.clients ?? {};
  const all: [Path, string][] = [
    ...hostedCallbacks.map((uri, n): [Path, string] => [['hostedCallbacks', n], uri]),
    ...allowedRedirects.map((uri, n): [Path, string] => [['allowedRedirects', n], uri]),
    ...preRegistered.flatMap(({ redirectUris }, client) =>
      redirectUris.map((uri, n): [Path, string] => [
        ['preRegistered', client, 'redirectUris', n],
        uri,
      ]),
    ),
  ];
  const expected = 'an address of a client, not an address of Gatehouse itself';
  return all
    .filter(([, uri]) => isOwn(uri, file))
    .map(([path]) => issueAt(source, ['clients', ...path], expected));
}

function isOwn(url: string, file: Partial<SettingsFile>): boolean {
  const own = [file.authUrl, file.resourceUrl, file.managementUrl, file.developmentIdp?.url];
  return own.includes(new URL(url).origin);
}

/** Signing in at Gatehouse itself would loop. Another provider may be served under a path of the same origin. */
function checkProviders(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const expected = 'the address of an identity provider, not an address of Gatehouse itself';
  return providersIn(file)
    .filter(([, { issuer }]) => isOwn(issuer, file) && new URL(issuer).pathname === '/')
    .map(([path]) => issueAt(source, [...path, 'issuer'], expected));
}

/** Calls to Gatehouse itself would loop. */
function checkUpstreams(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const expected = 'the address of your MCP server, not an address of Gatehouse itself';
  return upstreamsIn(file)
    .filter(([, { url }]) => isOwn(url, file))
    .map(([path]) => issueAt(source, [...path, 'url'], expected));
}

/** Checks every setting that names a level, also beside others that are wrong. */
function checkLevels(source: Source, { levels }: Partial<SettingsFile>): SettingsIssue[] {
  if (!levels) return [];
  const ids = levelIds(levels);
  const expected = ids.length === 1 ? String(ids[0]) : `one of ${ids.join(', ')}`;
  return levelPaths(source)
    .filter((path) => {
      const level = valueAt(source.document, path);
      return typeof level === 'string' && !ids.includes(level);
    })
    .map((path) => issueAt(source, path, expected));
}

function levelPaths({ document }: Source): Path[] {
  const itemsOf = (...path: Path) => {
    const list = valueAt(document, path);
    return Array.isArray(list) ? list.map((_, n): Path => [...path, n]) : [];
  };
  const levelsIn = (...path: Path) => itemsOf(...path).map((item) => [...item, 'level']);
  const providers: Path[] = [
    ['identityProvider'],
    ['developmentIdp'],
    ...itemsOf('identityProviders'),
  ];
  const upstreams: Path[] = [
    ['resourceServer', 'upstream'],
    ...itemsOf('resourceServer', 'upstreams'),
  ];
  return [
    ['authorization', 'requireDpop'],
    ...levelsIn('entitlements'),
    ...providers.flatMap((path) => itemsOf(...path, 'stepUp', 'levels')),
    ...upstreams.flatMap((path) => [
      [...path, 'defaultLevel'],
      ...['tools', 'resources', 'prompts'].flatMap((list) => levelsIn(...path, list)),
    ]),
  ];
}

/** The sample hides fields by the default levels. */
function checkSampleLevels(
  source: Source,
  { levels, resourceServer }: Partial<SettingsFile>,
): SettingsIssue[] {
  if (!levels || !resourceServer || resourceServer.upstream || resourceServer.upstreams) return [];
  const [given, needed] = [levels, DEFAULT_LEVELS].map((list) => levelIds(list).join(', '));
  if (given === needed) return [];
  const expected = `${needed}, which the built-in sample needs; for levels of your own, set resourceServer.upstream`;
  return [issueAt(source, ['levels'], expected, given)];
}

/** Introspection clients and pre-registered clients share one id space. */
function checkClientIds(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const taken = new Set(file.clients?.preRegistered.map(({ id }) => id));
  const expected = 'an id that is not also in clients.preRegistered';
  return (file.authorization?.introspectionClients ?? []).flatMap(({ id }, n) =>
    taken.has(id)
      ? [issueAt(source, ['authorization', 'introspectionClients', n, 'id'], expected)]
      : [],
  );
}

/** Only a confidential client may present an assertion (ID-JAG). The document of a client is read when it presents one. */
function checkTrustedIssuers(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const confidential = new Set(
    file.clients?.preRegistered.flatMap(({ id, secret, jwks, jwksUri }) =>
      (secret ?? jwks ?? jwksUri) === undefined ? [] : [id],
    ),
  );
  const issuers = file.authorization?.trustedIssuers ?? [];
  const { levels = DEFAULT_LEVELS } = file;
  return issuers.flatMap((trusted, n) => {
    const { issuer, clients, workloads } = trusted;
    const path = ['authorization', 'trustedIssuers', n];
    const own = issueAt(source, [...path, 'issuer'], 'an identity provider, not Gatehouse itself');
    const unknown = clients.flatMap((id, index) =>
      confidential.has(id) || isClientIdUrl(id)
        ? []
        : [issueAt(source, [...path, 'clients', index], KNOWN_CLIENT)],
    );
    const invalid = workloads.flatMap((rule, index) => {
      const place = [...path, 'workloads', index];
      const missing = missingOwner(issuer, rule);
      return [
        ...(missing === undefined ? [] : [issueAt(source, [...place, 'match'], missing)]),
        ...(isLevel(levels, rule.level)
          ? []
          : [issueAt(source, [...place, 'level'], `one of ${levelIds(levels).join(', ')}`)]),
      ];
    });
    return [
      ...(issuer === file.authUrl ? [own] : []),
      ...unknown,
      ...invalid,
      ...checkAudiences(source, path, trusted, file),
      ...checkPublishedKeys(source, path, trusted),
      ...(hasRole(file, 'authorization-server') ? checkIssuerFiles(source, path, trusted) : []),
    ];
  });
}

/** Every ID token of a person has this audience, so each person would be a workload. */
function checkAudiences(
  source: Source,
  path: Path,
  { issuer, audiences }: TrustedIssuer,
  file: Partial<SettingsFile>,
): SettingsIssue[] {
  const own = providersIn(file)
    .filter(([, provider]) => isSameIssuer(provider.issuer, issuer))
    .map(([, { clientId }]) => clientId);
  return audiences.flatMap((audience, n) =>
    own.includes(audience)
      ? [
          issueAt(
            source,
            [...path, 'audiences', n],
            'another audience than the client id of the sign-ins there, which every person’s ID token has',
          ),
        ]
      : [],
  );
}

const KNOWN_CLIENT =
  'the id of a client in clients.preRegistered that has a secret or keys, or the https address of a metadata document';

/** Checks only the form. The authorization server decides which redirect URIs a document may have. */
function checkMetadataDocuments(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  return (file.clients?.metadataDocuments ?? []).flatMap(({ url, document }, n) => {
    const path = ['clients', 'metadataDocuments', n, 'document'];
    const isOwnAddress = document['client_id'] === url;
    return [
      ...(isOwnAddress ? [] : [issueAt(source, [...path, 'client_id'], `the url, ${url}`)]),
      ...(hasRedirect(document['redirect_uris'])
        ? []
        : [issueAt(source, [...path, 'redirect_uris'], 'a list of addresses, one or more')]),
    ];
  });
}

function hasRedirect(uris: unknown): boolean {
  if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) return false;
  return uris.some(isRedirectUri);
}

/** Only the authorization server and the resource server may share an origin. Listeners of one process may not share a socket. */
function checkListeners(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const all = hosts(file);
  return all.flatMap((second, index) =>
    all.slice(0, index).flatMap((first) => {
      const issue = conflict(source, file.roles ?? [], first, second);
      return issue ? [issue] : [];
    }),
  );
}

function conflict(
  source: Source,
  roles: Role[],
  first: Host,
  second: Host,
): SettingsIssue | undefined {
  const isOneOrigin = first.url === second.url;
  if (isOneOrigin && !(first.name === 'auth' && second.name === 'resource')) {
    const expected = `an address other than ${settingName(source, first.urlPath)}`;
    return issueAt(source, second.urlPath, expected);
  }
  const areBothHere = [first, second].every(({ role }) => !role || roles.includes(role));
  if (!areBothHere || !isOneSocket(first.address, second.address)) return undefined;
  if (isOneOrigin && first.address.host === second.address.host) return undefined;
  const { host, port } = second.address;
  const expected = `a different host:port (listen.${first.name} is ${first.address.host}:${first.address.port}); set listen.${second.name}`;
  return issueAt(source, second.addressPath, expected, `${host}:${port} to listen on`);
}

/** Port 0 lets the system choose a free port. */
function isOneSocket(first: Address, second: Address): boolean {
  if (first.port !== second.port || first.port === 0) return false;
  return (
    first.host === second.host || [first, second].some(({ host }) => /^(0\.0\.0\.0|::)$/.test(host))
  );
}

/** Returns why this is production, in words: because of NODE_ENV, or because other computers can reach a host. Undefined in development. */
export function productionReason(
  source: Source,
  file: Partial<SettingsFile>,
  environment: Environment,
): string | undefined {
  if (environment['NODE_ENV'] === 'production') return 'NODE_ENV is production';
  const addresses = [
    { path: ['authUrl'], isPublic: isPublic(file.authUrl) },
    { path: ['resourceUrl'], isPublic: isPublic(file.resourceUrl) },
    { path: ['developmentIdp', 'url'], isPublic: isPublic(file.developmentIdp?.url) },
    ...hosts(file).map(({ addressPath, address }) => ({
      path: addressPath,
      isPublic: !isLoopback(address.host),
    })),
  ];
  const found = addresses.find(({ isPublic }) => isPublic);
  return found && `${settingName(source, found.path)} is reachable from other computers`;
}

function isPublic(url: string | undefined): boolean {
  return url !== undefined && !isLoopbackUrl(url);
}

/** `reason` is why this is production. */
export function checkProduction(
  source: Source,
  file: Partial<SettingsFile>,
  reason: string,
): SettingsIssue[] {
  const { authUrl, resourceUrl, managementUrl } = file;
  const isDevelopmentIdpGiven = valueAt(source.document, ['developmentIdp']) !== undefined;
  const https = 'an https address';
  const httpsUpstream = (path: Path) =>
    `an https address (or ${pathName([...path, 'privateNetwork'])}: true on a private network)`;
  const refusals: [boolean, Path, string][] = [
    [isPlain(authUrl), ['authUrl'], https],
    [isPlain(resourceUrl), ['resourceUrl'], https],
    [isPlain(managementUrl) && isManagementReachable(file), ['managementUrl'], https],
    ...providersIn(file).map(([path, { issuer }]): [boolean, Path, string] => [
      isPlain(issuer),
      [...path, 'issuer'],
      https,
    ]),
    ...(file.authorization?.trustedIssuers ?? []).flatMap(({ issuer, jwksUri }, n) => {
      const path = ['authorization', 'trustedIssuers', n];
      return [
        [isPlain(issuer), [...path, 'issuer'], https],
        [isPlain(jwksUri), [...path, 'jwksUri'], https],
      ] satisfies [boolean, Path, string][];
    }),
    ...upstreamsIn(file).map(([path, upstream]): [boolean, Path, string] => [
      isOpenUpstream(upstream),
      [...path, 'url'],
      httpsUpstream(path),
    ]),
    [isDevelopmentIdpGiven, ['developmentIdp'], 'no value; use identityProvider instead'],
  ];
  return refusals
    .filter(([isRefused]) => isRefused)
    .map(([, path, expected]) => issueAt(source, path, `${expected}, ${inProduction(reason)}`));
}

/** Over plain http, the management key would be readable on the network. */
function isManagementReachable(file: Partial<SettingsFile>): boolean {
  const host = hosts(file).find(({ name }) => name === 'management');
  return isPublic(file.managementUrl) || (host !== undefined && !isLoopback(host.address.host));
}

/** Plain http to another computer can be read and changed on the network. */
function isOpenUpstream({ url, privateNetwork }: UpstreamInFile): boolean {
  return isPlain(url) && isPublic(url) && !privateNetwork;
}

export function inProduction(reason: string): string {
  return `because this is production (${reason})`;
}

function isPlain(url: string | undefined): boolean {
  return url !== undefined && new URL(url).protocol === 'http:';
}

/** Example values, unfilled templates, keyboard sequences, and repeated characters. */
const PLACEHOLDERS = [
  /^(change|replace)[-_ ]?(me|this|it)/i,
  /^(your|insert|enter|example|sample|placeholder|default|dummy|super[-_ ]?secret)[-_ ]/i,
  /\$\(.*\)|\$\{.*\}|\{\{.*\}\}|^<.*>$/,
  /^(0?12345678|abcdefgh)/i,
  /^(.{1,8}?)\1{3,}.{0,7}$/,
];
/** A random secret of this many characters has more than MAX_PLACEHOLDER_SYMBOLS distinct ones. */
const MIN_RANDOM_CHARACTERS = 24;
const MAX_PLACEHOLDER_SYMBOLS = 7;

/** Secrets with the setting of each, a variable or a path. `app` is the client id at the identity provider that issued the secret. */
export type NamedSecrets = readonly (readonly [
  setting: string,
  secret: string | undefined,
  app?: string,
])[];

/** Returns the secrets that are written in the settings file, or in a file that it names. `read` are the providers with the content of such files. */
export function secretsIn(
  source: Source,
  file: Partial<SettingsFile>,
  read: readonly IdentityProvider[] = [],
): NamedSecrets {
  const clients = [
    [['clients', 'preRegistered'], file.clients?.preRegistered ?? []],
    [['authorization', 'introspectionClients'], file.authorization?.introspectionClients ?? []],
  ] as const;
  return [
    ...clients.flatMap(([path, list]) =>
      list.map(({ secret }, n) => [settingName(source, [...path, n, 'secret']), secret] as const),
    ),
    ...providersIn(file).map(([path, { clientSecret, clientSecretFile, clientId }], n) =>
      clientSecretFile
        ? ([pathName([...path, 'clientSecretFile']), read[n]?.clientSecret, clientId] as const)
        : ([settingName(source, [...path, 'clientSecret']), clientSecret, clientId] as const),
    ),
  ];
}

/** `reason` is why this is production. */
export function checkPlaceholders(secrets: NamedSecrets, reason: string): SettingsIssue[] {
  const expected = `a random secret, not a placeholder, ${inProduction(reason)}`;
  return secrets
    .filter(([, secret]) => isPlaceholder(secret))
    .map(([setting, secret]) => ({ setting, given: hidden(secret), expected }));
}

function isPlaceholder(secret = ''): boolean {
  if (secret.length >= MIN_RANDOM_CHARACTERS && new Set(secret).size <= MAX_PLACEHOLDER_SYMBOLS)
    return true;
  return PLACEHOLDERS.some((pattern) => pattern.test(secret));
}

/** A shorter secret can be part of another one by chance. */
const MIN_COMPARED_CHARACTERS = 16;
const ROOT = 'GATEHOUSE_SECRET';

/**
 * Reports the later secret of each pair that is equal or contained. `previous` is the previous root secret. `reason` is why this is
 * production. One client id at several issuers, such as tenants of one provider, may have the same secret.
 */
export function checkDistinctSecrets(
  secrets: NamedSecrets,
  previous: string | undefined,
  reason: string,
): SettingsIssue[] {
  return secrets.flatMap(([setting, secret = '', app], index) => {
    const before = ['GATEHOUSE_PREVIOUS_SECRET', setting === ROOT ? '' : previous] as const;
    const others: NamedSecrets = [...secrets.slice(0, index), before];
    const other = others.find(
      ([, text, at]) => (app === undefined || at !== app) && overlap(text, secret),
    );
    if (!other) return [];
    const expected = `a different secret, not ${other[0]} or a part of it, ${inProduction(reason)}`;
    return [{ setting, given: hidden(secret), expected }];
  });
}

/** Reports the later of two equal management keys: the role of a request would be ambiguous. */
export function checkDistinctKeys(keys: NamedSecrets): SettingsIssue[] {
  return keys.flatMap(([setting, key], index) => {
    const other = keys.slice(0, index).find(([, earlier]) => earlier === key);
    if (!other || key === undefined) return [];
    return [{ setting, given: hidden(key), expected: `a different key, not that of ${other[0]}` }];
  });
}

function overlap(first = '', second = ''): boolean {
  const [short = '', long = ''] = [first, second].toSorted((a, b) => a.length - b.length);
  return short.length >= MIN_COMPARED_CHARACTERS && long.includes(short);
}
