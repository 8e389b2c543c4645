// The credentials of people at upstreams, with the secrets that they need.
import type { Levels } from '../permission-levels.ts';
import { levelIds } from '../permission-levels.ts';
import type { CredentialInFile } from './credential-schema.ts';
import type { Environment } from './environment.ts';
import type { IdentityProvider } from './identity-provider.ts';
import type { SettingsIssue } from './issues.ts';
import { type Reading, readSecretFile, readVariable } from './secrets.ts';
import { type Path, pathName, type Source } from './source.ts';

/** Lower case. `prefix` stands before the credential, as written. */
export type CredentialHeader = { name: string; prefix: string };

type Resolved<T> = Omit<T, 'clientSecret' | 'clientSecretFile' | 'header'> & {
  clientSecret?: string;
  /** The settings name a secret that this process, which only ends credentials, does not have. */
  lacksSecret?: true;
  header: CredentialHeader;
};

type OfKind<K> = Extract<CredentialInFile, { kind: K }>;

export type OAuthCredentialSettings = Resolved<OfKind<'oauth'>>;
export type ExchangeCredentialSettings = Resolved<OfKind<'exchange'>>;
export type KeyCredentialSettings = Resolved<OfKind<'key'>>;

/** Contains secrets: never log it. */
export type CredentialSettings =
  OAuthCredentialSettings | ExchangeCredentialSettings | KeyCredentialSettings;

type Context = {
  source: Source;
  environment: Environment;
  levels: Levels;
  /** Whether this process obtains or refreshes credentials. Others may lack the secrets. */
  needsSecrets: boolean;
  /** Returns whether a header has another meaning. */
  isReserved: (name: string) => boolean;
};

export function readCredential(
  context: Context,
  path: Path,
  given: CredentialInFile,
): Reading<CredentialSettings> {
  const issues = [
    ...checkHeader(context, path, given),
    ...checkSecretOnce(path, given),
    ...(given.kind === 'oauth' ? checkOAuth(context, path, given) : []),
    ...(given.kind === 'exchange' ? checkExchangeClient(path, given) : []),
  ];
  const header = headerOf(given);
  if (given.kind === 'key') {
    const { header: _, ...others } = given;
    return issues.length > 0 ? { issues } : { value: { ...others, header }, issues };
  }
  const secret = readClientSecret(context, path, given);
  const all = [...issues, ...(context.needsSecrets ? secret.issues : [])];
  if (all.length > 0) return { issues: all };
  const { clientSecret: _secret, clientSecretFile: _file, header: _header, ...others } = given;
  const value = {
    ...others,
    ...(secret.value === undefined ? {} : { clientSecret: secret.value }),
    ...(secret.issues.length > 0 ? { lacksSecret: true as const } : {}),
    header,
  };
  return { value, issues: [] };
}

function headerOf({ header }: CredentialInFile): CredentialHeader {
  if (header === undefined) return { name: 'authorization', prefix: 'Bearer ' };
  if (typeof header === 'string') return { name: header.toLowerCase(), prefix: '' };
  return { name: header.name.toLowerCase(), prefix: header.prefix };
}

function checkHeader(
  { isReserved }: Context,
  path: Path,
  given: CredentialInFile,
): SettingsIssue[] {
  const { name } = headerOf(given);
  if (!isReserved(name)) return [];
  const expected = 'a header that neither Gatehouse nor caller.headers sets';
  return [{ setting: pathName([...path, 'header']), given: name, expected }];
}

function checkOAuth({ levels }: Context, path: Path, credential: OfKind<'oauth'>): SettingsIssue[] {
  const { issuer, authorizationEndpoint, tokenEndpoint, registration, clientId, scopes } =
    credential;
  const issueAt = (member: string, text: string, expected: string) => ({
    setting: pathName([...path, member]),
    given: text,
    expected,
  });
  const isHalf = (authorizationEndpoint === undefined) !== (tokenEndpoint === undefined);
  const missing = authorizationEndpoint === undefined ? 'authorizationEndpoint' : 'tokenEndpoint';
  const unknown = Array.isArray(scopes)
    ? []
    : Object.keys(scopes).filter((level) => !levelIds(levels).includes(level));
  return [
    ...(isHalf
      ? [issueAt(missing, 'nothing', 'both endpoints of a service without metadata')]
      : []),
    ...(issuer !== undefined && tokenEndpoint !== undefined
      ? [issueAt('issuer', 'a value', 'no value beside tokenEndpoint')]
      : []),
    ...(registration === 'named' && clientId === undefined
      ? [issueAt('clientId', 'nothing', 'the id of the client that is named')]
      : []),
    ...(tokenEndpoint !== undefined && clientId === undefined
      ? [
          issueAt(
            'clientId',
            'nothing',
            'the id of our client: a service without metadata has no registration',
          ),
        ]
      : []),
    ...unknown.map((level) => issueAt('scopes', level, `levels: ${levelIds(levels).join(', ')}`)),
  ];
}

function checkSecretOnce(path: Path, given: CredentialInFile): SettingsIssue[] {
  const isTwice =
    given.kind !== 'key' &&
    given.clientSecret !== undefined &&
    given.clientSecretFile !== undefined;
  const expected = 'only one of clientSecret and clientSecretFile';
  return isTwice ? [{ setting: pathName([...path, 'clientSecret']), given: 'both', expected }] : [];
}

function checkExchangeClient(path: Path, credential: OfKind<'exchange'>): SettingsIssue[] {
  const { clientId, clientSecret, clientSecretFile } = credential;
  const hasSecret = clientSecret !== undefined || clientSecretFile !== undefined;
  if (clientId !== undefined || !hasSecret) return [];
  const expected = 'the id of the client that has this secret';
  return [{ setting: pathName([...path, 'clientId']), given: 'nothing', expected }];
}

/** The identity provider of a token exchange. Undefined if the settings do not have it. */
export function exchangeProvider<Provider extends { id: string }>(
  providers: readonly Provider[],
  { provider }: Pick<ExchangeCredentialSettings, 'provider'>,
): Provider | undefined {
  if (provider === undefined) return providers.length === 1 ? providers[0] : undefined;
  return providers.find(({ id }) => id === provider);
}

type ExchangeUpstream = { setting: string; credential?: CredentialSettings };

/** What only all identity providers together can answer. */
export function checkExchanges(
  providers: readonly IdentityProvider[],
  upstreams: readonly ExchangeUpstream[],
): SettingsIssue[] {
  return upstreams.flatMap(({ setting, credential }) => {
    if (credential?.kind !== 'exchange') return [];
    const issueAt = (member: string, given: string, expected: string) => [
      { setting: `${setting}.credential.${member}`, given, expected },
    ];
    const provider = exchangeProvider(providers, credential);
    const { provider: named = 'nothing', style } = credential;
    if (!provider) {
      const ids = providers.map(({ id }) => id).join(', ');
      return issueAt('provider', named, `the id of an identity provider: ${ids}`);
    }
    if (provider.kind === 'github')
      return issueAt('provider', named, 'an OpenID provider: GitHub exchanges no tokens');
    if (style === 'on-behalf-of' && (credential.scope ?? credential.resource) === undefined)
      return issueAt('scope', 'nothing', 'the scopes of the server, such as api://server/.default');
    if (style === 'on-behalf-of' && !provider.scopes.some((scope) => isOwnScope(provider, scope)))
      return issueAt(
        'style',
        style,
        `a scope of our own app in the scopes of the identity provider, such as api://${provider.clientId}/access: only a token for it can be exchanged`,
      );
    return [];
  });
}

/** Of the app that signs people in, and not of OpenID or Microsoft Graph: scopes of other apps would also lead to a token that cannot be exchanged. */
function isOwnScope({ clientId }: IdentityProvider, scope: string): boolean {
  if (scope.startsWith(`${clientId}/`)) return true;
  const host = /^(?:api|https):\/\/([^/]+)\/./i.exec(scope)?.[1]?.toLowerCase();
  return host !== undefined && !/(^|\.)(microsoft|azure|office|office365|sharepoint)\./.test(host);
}

/** Marks the providers whose token of the person is exchanged, so that it is stored as for `recheck`. */
export function withExchanges(
  providers: readonly IdentityProvider[],
  upstreams: readonly ExchangeUpstream[],
): IdentityProvider[] {
  const exchanging = upstreams.flatMap(({ credential }) =>
    credential?.kind === 'exchange' ? [exchangeProvider(providers, credential)] : [],
  );
  return providers.map((provider) =>
    exchanging.includes(provider) ? { ...provider, exchangesTokens: true } : provider,
  );
}

function readClientSecret(
  { source, environment }: Context,
  path: Path,
  {
    clientSecret,
    clientSecretFile,
  }: Pick<OfKind<'oauth' | 'exchange'>, 'clientSecret' | 'clientSecretFile'>,
): Reading<string | undefined> {
  const setting = pathName([...path, 'clientSecret']);
  if (clientSecretFile !== undefined)
    return readSecretFile(clientSecretFile, `${setting}File`, { base: source.folder });
  if (clientSecret === undefined) return { issues: [] };
  if (typeof clientSecret === 'string') return { value: clientSecret, issues: [] };
  if ('file' in clientSecret)
    return readSecretFile(clientSecret.file, `${setting}.file`, { base: source.folder });
  return readVariable(environment, `${setting}.env`, clientSecret.env);
}
