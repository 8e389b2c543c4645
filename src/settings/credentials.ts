// The credentials of people at upstreams, with the secrets that they need.
import type { Levels } from '../permission-levels.ts';
import { levelIds } from '../permission-levels.ts';
import type { CredentialInFile } from './credential-schema.ts';
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';
import { type Reading, readSecretFile, readVariable } from './secrets.ts';
import { type Path, pathName, type Source } from './source.ts';

/** Lower case. `prefix` stands before the credential, as written. */
export type CredentialHeader = { name: string; prefix: string };

type Resolved<T> = Omit<T, 'clientSecret' | 'clientSecretFile' | 'header'> & {
  clientSecret?: string;
  header: CredentialHeader;
};

type OfKind<K> = Extract<CredentialInFile, { kind: K }>;

export type OAuthCredentialSettings = Resolved<OfKind<'oauth'>>;
export type KeyCredentialSettings = Resolved<OfKind<'key'>>;

/** Contains secrets: never log it. */
export type CredentialSettings = OAuthCredentialSettings | KeyCredentialSettings;

type Context = {
  source: Source;
  environment: Environment;
  levels: Levels;
  /** Whether this process obtains or refreshes credentials. */
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
    ...(given.kind === 'oauth' ? checkOAuth(context, path, given) : []),
  ];
  const header = headerOf(given);
  if (given.kind === 'key') {
    const { header: _, ...others } = given;
    return issues.length > 0 ? { issues } : { value: { ...others, header }, issues };
  }
  const secret = readClientSecret(context, path, given);
  const all = [...issues, ...secret.issues];
  if (all.length > 0) return { issues: all };
  const { clientSecret: _secret, clientSecretFile: _file, header: _header, ...others } = given;
  const value = {
    ...others,
    ...(secret.value === undefined ? {} : { clientSecret: secret.value }),
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

function readClientSecret(
  { source, environment, needsSecrets }: Context,
  path: Path,
  { clientSecret, clientSecretFile }: Pick<OfKind<'oauth'>, 'clientSecret' | 'clientSecretFile'>,
): Reading<string | undefined> {
  const setting = pathName([...path, 'clientSecret']);
  if (clientSecret !== undefined && clientSecretFile !== undefined) {
    const expected = 'only one of clientSecret and clientSecretFile';
    return { issues: [{ setting, given: 'both', expected }] };
  }
  if (!needsSecrets) return { issues: [] };
  if (clientSecretFile !== undefined)
    return readSecretFile(clientSecretFile, `${setting}File`, { base: source.folder });
  if (clientSecret === undefined) return { issues: [] };
  if (typeof clientSecret === 'string') return { value: clientSecret, issues: [] };
  if ('file' in clientSecret)
    return readSecretFile(clientSecret.file, `${setting}.file`, { base: source.folder });
  return readVariable(environment, `${setting}.env`, clientSecret.env);
}
