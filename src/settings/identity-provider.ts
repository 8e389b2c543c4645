// Where people sign in: the configured OpenID provider or, in development, the embedded one.
import { valueAt } from './document.ts';
import { PROJECT_ROOT } from './file.ts';
import { identityProvider, type SettingsFile } from './schema.ts';
import { readSecretFile, type Reading } from './secret.ts';
import { mistakeAt, settingName, type Source } from './source.ts';

/** `clientSecret` is absent for a public client, and for the embedded provider, whose secret comes from the root secret. */
export type IdentityProvider = {
  /** Absent: people are told that it is their company account, in their language. */
  name?: string;
  issuer: string;
  clientId: string;
  clientSecret?: string;
  scopes: string[];
  groupsClaim: string;
  /** What asks people who they are although the provider remembers them (OpenID Connect Core section 3.1.2.1). */
  switchAccountPrompt: 'login' | 'select_account';
  embedded: boolean;
};

export function readIdentityProvider(
  source: Source,
  file: Partial<SettingsFile>,
): Reading<IdentityProvider> {
  const isGiven = (key: string) => valueAt(source.document, [key]) !== undefined;
  if (isGiven('identityProvider') && isGiven('developmentIdp')) {
    return {
      mistakes: [mistakeAt(source, ['developmentIdp'], 'it or identityProvider, not both')],
    };
  }
  if (file.identityProvider) return configuredProvider(source, file.identityProvider);
  if (file.developmentIdp)
    return { value: embeddedProvider(file.developmentIdp.url), mistakes: [] };
  if (isGiven('identityProvider') || isGiven('developmentIdp')) return { mistakes: [] };
  const expected = 'the OpenID provider where people sign in';
  return { mistakes: [mistakeAt(source, ['identityProvider'], expected)] };
}

function configuredProvider(
  source: Source,
  { clientSecretFile, ...provider }: NonNullable<SettingsFile['identityProvider']>,
): Reading<IdentityProvider> {
  const value = { ...provider, embedded: false };
  if (!clientSecretFile) return { value, mistakes: [] };
  const setting = settingName(source, ['identityProvider', 'clientSecretFile']);
  const secret = readSecretFile(clientSecretFile, setting, { base: PROJECT_ROOT });
  if (!secret.value) return { mistakes: secret.mistakes };
  return { value: { ...value, clientSecret: secret.value }, mistakes: [] };
}

function embeddedProvider(issuer: string): IdentityProvider {
  const name = 'the development identity provider';
  return { ...identityProvider.parse({ name, issuer, clientId: 'gatehouse' }), embedded: true };
}
