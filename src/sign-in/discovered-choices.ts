// Choices that a provider's discovery document makes, unless the settings make them (OpenID Connect Discovery 1.0 section 3).
import { isGoogle } from '../settings/identity-provider-schema.ts';
import {
  type IdentityProvider as IdentityProviderSettings,
  storesToken,
} from '../settings/identity-provider.ts';

/** Not validated: the document of doctor is as the provider sent it. */
type ServerMetadata = {
  token_endpoint_auth_methods_supported?: unknown;
  scopes_supported?: unknown;
  ui_locales_supported?: unknown;
};

export type ClientAuthenticationMethod = NonNullable<
  IdentityProviderSettings['clientAuthentication']
>;

/** `client_secret_basic` is the default of section 3. */
export function clientAuthenticationMethod(
  { clientAuthentication }: IdentityProviderSettings,
  { token_endpoint_auth_methods_supported: methods }: ServerMetadata,
): ClientAuthenticationMethod {
  if (clientAuthentication) return clientAuthentication;
  return lacks(methods, 'client_secret_basic') ? 'client_secret_post' : 'client_secret_basic';
}

export const OFFLINE_ACCESS = 'offline_access';

/**
 * Returns the scopes to request. Some providers issue refresh tokens without `offline_access`, and refuse a request with it (GitLab, Amazon
 * Cognito), so it is left out if the document lists scopes and not this one. Google has a parameter in its place.
 */
export function requestedScopes(
  settings: IdentityProviderSettings,
  { scopes_supported: supported }: ServerMetadata,
): string[] {
  const { scopes, recheckScopes, issuer } = settings;
  const isOffered = !isGoogle(issuer) && !lacks(supported, OFFLINE_ACCESS);
  const further = recheckScopes ?? (storesToken(settings) && isOffered ? [OFFLINE_ACCESS] : []);
  return [...new Set([...scopes, ...further])];
}

/** Whether the provider has languages to choose from. Some refuse parameters that they do not know. */
export function takesUiLocales({ ui_locales_supported: locales }: ServerMetadata): boolean {
  return Array.isArray(locales) && locales.length > 0;
}

/** Whether the document has the list, without this name. */
export function lacks(list: unknown, name: string): boolean {
  return Array.isArray(list) && !list.includes(name);
}
