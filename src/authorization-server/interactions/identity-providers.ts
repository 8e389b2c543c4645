// The identity providers that people may sign in at, each with a callback of its own (RFC 9700 section 4.4.2.2).
import { foldedAddress, isOfIssuer } from '../../accounts/account.ts';
import { HttpError } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { type IdentityProvider, openIdentityProvider } from './identity-provider.ts';

export const CALLBACK_PATH = '/interaction/callback';

/** At least one; those of a list have ids. */
export type IdentityProviders = readonly IdentityProvider[];

/** `callbackUrl`: of a single one; those of a list come back to below it. */
export function openIdentityProviders(
  settings: readonly IdentityProviderSettings[],
  callbackUrl: string,
): IdentityProviders {
  return settings.map((provider) =>
    openIdentityProvider(provider, callbackOf(provider, callbackUrl)),
  );
}

/** Where people come back from this provider; `callbackUrl` is that of a single one. */
export function callbackOf(
  { listed, id }: Pick<IdentityProviderSettings, 'listed' | 'id'>,
  callbackUrl: string,
): string {
  return belowPath(callbackUrl, listed ? id : undefined);
}

/** The one whose id this is; a single one has none. */
export function requireProvider(
  providers: IdentityProviders,
  id: string | undefined,
): IdentityProvider {
  const provider = providers.find((candidate) => candidate.id === id);
  if (provider) return provider;
  throw new HttpError(404, 'not_found', 'there is no such identity provider');
}

/** Without a choice: the only one, or the one whose people have addresses like this. */
export function findProviderFor(
  providers: IdentityProviders,
  loginHint: string | undefined,
): IdentityProvider | undefined {
  return providers.length === 1 ? providers[0] : findOwner(providers, loginHint);
}

/** Whose people have addresses like this. */
export function findOwner(
  providers: IdentityProviders,
  address = '',
): IdentityProvider | undefined {
  const [, domain] = /@([^@]+)$/.exec(foldedAddress(address)) ?? [];
  return domain === undefined
    ? undefined
    : providers.find(({ emailDomains }) => emailDomains.includes(domain));
}

/** What the pages call the provider of an account; undefined when it has no name, or is not there any more. */
export function providerName(
  providers: IdentityProviders,
  account: { issuer: string },
): string | undefined {
  return providers.find(({ issuer }) => isOfIssuer(account, issuer))?.name;
}

/** `<path>/<id>`, or `path` alone for the only one. */
export function belowPath(path: string, id: string | undefined): string {
  return id === undefined ? path : `${path}/${id}`;
}
