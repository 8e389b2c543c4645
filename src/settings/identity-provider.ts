// The configured sign-in providers or, in development, the embedded one.
import { issueAt, type Path, settingName, type Source, valueAt } from './source.ts';
import type { SettingsIssue } from './issues.ts';
import { identityProviderSchema } from './identity-provider-schema.ts';
import type { SettingsFile } from './schema.ts';
import { allOf, readSecretFile, type Reading } from './secrets.ts';

/**
 * `clientSecret` is absent for a public client, and for the embedded provider, whose secret is derived from the root secret. `recheck` is in
 * seconds. `exchangesTokens`: the token of a person there is exchanged for calls to an MCP server.
 */
export type IdentityProvider = Omit<ProviderInFile, 'clientSecretFile'> & {
  embedded: boolean;
  exchangesTokens?: true;
};

/** Whether the token of a person at the provider is stored. */
export function storesToken({ recheck, exchangesTokens }: IdentityProvider): boolean {
  return recheck !== undefined || exchangesTokens === true;
}

type ProviderInFile = NonNullable<SettingsFile['identityProvider']>;

const WAYS = ['identityProvider', 'identityProviders', 'developmentIdp'] as const;

/** Returns at least one provider, or issues. */
export function readIdentityProviders(
  source: Source,
  file: Partial<SettingsFile>,
): Reading<IdentityProvider[]> {
  const [first, ...others] = WAYS.filter((key) => valueAt(source.document, [key]) !== undefined);
  if (first === undefined) {
    const expected = 'the OpenID provider where people sign in';
    return { issues: [issueAt(source, ['identityProvider'], expected)] };
  }
  if (others.length > 0) return { issues: others.map((other) => besides(source, first, other)) };
  if (file.developmentIdp) return { value: [embeddedProvider(file.developmentIdp)], issues: [] };
  const given = providersIn(file);
  // A provider that the schema refuses is missing here, and reported there.
  if (given.length === 0) return { issues: [] };
  return allOf(given.map(([path, provider]) => configuredProvider(source, path, provider)));
}

function besides(source: Source, first: string, other: string): SettingsIssue {
  const fromEnvironment = source.variables.find(({ path }) => path[0] === first);
  if (other === 'identityProviders' && fromEnvironment) {
    const expected =
      'no value, because each entry of identityProviders has its own clientSecretFile';
    return { setting: fromEnvironment.name, given: 'a value', expected };
  }
  return issueAt(source, [other], `only one of ${first} and ${other}`);
}

/** Returns the configured providers with their paths in the file. */
export function providersIn(file: Partial<SettingsFile>): [Path, ProviderInFile][] {
  const listed = file.identityProviders ?? [];
  return [
    ...(file.identityProvider ? [[['identityProvider'], file.identityProvider] as const] : []),
    ...listed.map((provider, n) => [['identityProviders', n], provider] as const),
  ].map(([path, provider]) => [path, provider]);
}

/** Only a refresh token that is stored needs scopes: for rechecks, and for the exchanges that `providers` know. */
export function checkRecheckScopes(
  source: Source,
  file: Partial<SettingsFile>,
  providers: readonly IdentityProvider[],
): SettingsIssue[] {
  const exchanging = providers.filter(({ exchangesTokens }) => exchangesTokens).map(({ id }) => id);
  return providersIn(file)
    .filter(([, { kind }]) => kind === 'openid')
    .filter(([, each]) => each.recheckScopes !== undefined && each.recheck === undefined)
    .filter(([, { id }]) => !exchanging.includes(id))
    .map(([path]) => issueAt(source, [...path, 'recheckScopes'], 'no value without recheck'));
}

function configuredProvider(
  source: Source,
  path: Path,
  { clientSecretFile, ...provider }: ProviderInFile,
): Reading<IdentityProvider> {
  const value = { ...provider, embedded: false };
  if (!clientSecretFile) return withSecretIfNeeded(source, path, value);
  const setting = settingName(source, [...path, 'clientSecretFile']);
  const secret = readSecretFile(clientSecretFile, setting, { base: source.folder });
  if (!secret.value) return { issues: secret.issues };
  return { value: { ...value, clientSecret: secret.value }, issues: [] };
}

function withSecretIfNeeded(
  source: Source,
  path: Path,
  value: IdentityProvider,
): Reading<IdentityProvider> {
  if (value.kind !== 'github' || value.clientSecret !== undefined) return { value, issues: [] };
  const expected = 'the client secret that GitHub gave to Gatehouse, or clientSecretFile';
  return { issues: [issueAt(source, [...path, 'clientSecret'], expected)] };
}

export function embeddedProvider({
  url: issuer,
  stepUp,
}: Pick<NonNullable<SettingsFile['developmentIdp']>, 'url' | 'stepUp'>): IdentityProvider {
  const name = 'the development identity provider';
  const scopes = ['openid', 'profile', 'email', 'groups'];
  const given = { id: 'development', name, issuer, clientId: 'gatehouse', scopes };
  const provider = { ...identityProviderSchema.parse(given, { jitless: true }), embedded: true };
  return stepUp ? { ...provider, stepUp } : provider;
}
