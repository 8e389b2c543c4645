// The configured identity providers. Each has its own callback URL, which prevents mix-up attacks (RFC 9700 section 4.4.2.2).
import { normalizeEmail } from '../../accounts/account.ts';
import { HttpError } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { isSameIssuer } from '../../settings/value-types.ts';
import { type IdentityProvider, openIdentityProvider } from './identity-provider.ts';

export const CALLBACK_PATH = '/interaction/callback';

/** Never empty. Each provider of a list has an id; a single one has none. */
export type IdentityProviders = readonly IdentityProvider[];

/** `callbackUrl` is the callback of a single provider; those of a list append their id. */
export function openIdentityProviders(
  settings: readonly IdentityProviderSettings[],
  callbackUrl: string,
): IdentityProviders {
  return settings.map((provider) =>
    openIdentityProvider(provider, providerCallback(provider, callbackUrl)),
  );
}

/** Returns the redirect URI of a provider; `callbackUrl` is that of a single one. */
export function providerCallback(
  { listed, id }: Pick<IdentityProviderSettings, 'listed' | 'id'>,
  callbackUrl: string,
): string {
  return pathOfProvider(callbackUrl, listed ? id : undefined);
}

/** Throws 404 if no provider has this id. */
export function requireProvider(
  providers: IdentityProviders,
  id: string | undefined,
): IdentityProvider {
  const provider = providers.find((candidate) => candidate.id === id);
  if (provider) return provider;
  throw new HttpError(404, 'not_found', 'there is no such identity provider');
}

/** Returns the only provider, or the one that the login hint's e-mail domain selects. */
export function findDefaultProvider(
  providers: IdentityProviders,
  loginHint: string | undefined,
): IdentityProvider | undefined {
  return providers.length === 1 ? providers[0] : findProviderForEmail(providers, loginHint);
}

/** Finds the provider whose `emailDomains` contain the domain of the e-mail address. */
export function findProviderForEmail(
  providers: IdentityProviders,
  address = '',
): IdentityProvider | undefined {
  const [, domain] = /@([^@]+)$/.exec(normalizeEmail(address)) ?? [];
  return domain === undefined
    ? undefined
    : providers.find(({ emailDomains }) => emailDomains.includes(domain));
}

/** Returns the provider's display name; undefined if it has none or is no longer configured. */
export function providerName(
  providers: IdentityProviders,
  account: { issuer: string },
): string | undefined {
  return providers.find(({ issuer }) => isSameIssuer(account.issuer, issuer))?.name;
}

/** Returns `<path>/<id>`, or `path` for a single provider. */
export function pathOfProvider(path: string, id: string | undefined): string {
  return id === undefined ? path : `${path}/${id}`;
}
