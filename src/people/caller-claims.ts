// What an operator's server may learn about a person: the claims in `upstreams[].caller.claims` that the consent page named. Pure: no I/O.
import { identitySourcesOf, type Via } from '../settings/entitlements.ts';
import { CALLER_CLAIMS, type CallerClaim } from '../settings/schema.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Account, claimsVia, printableName, verifiedEmailOf } from './account.ts';
import { withOwnEmail } from './domain-owner.ts';
import type { ProviderSettings } from './entitlement.ts';

/** Of a person. A claim that the person does not have is absent. */
export type CallerClaims = {
  name?: string;
  /** Verified. */
  email?: string;
  groups?: readonly string[];
  /** Of the identity provider. */
  issuer?: string;
  /** Of the person at the issuer. */
  subject?: string;
  /** The id of the identity provider in the settings. */
  provider?: string;
};

/** Returns those of the claims with these names that the person has. `via`: how the person authenticated for the connection. */
export function callerClaims(
  settings: ProviderSettings,
  account: Account,
  via: Via,
  names: readonly CallerClaim[],
): CallerClaims {
  const asserted = claimsVia(account, via);
  if (!asserted || account.forgottenAt !== undefined) return {};
  const { issuer, subject } = account;
  // The settings may have given the domain to another provider since the person was described.
  const asserter = via === 'sign-in' ? account : { issuer, subject };
  const claims = withOwnEmail(settings.identityProviders, asserted, asserter);
  const all: { [Claim in CallerClaim]: CallerClaims[Claim] | undefined } = {
    // Of a person without a name, the account has the subject in its place, which is another claim.
    name: claims.name === printableName(subject) ? undefined : claims.name,
    email: verifiedEmailOf(claims),
    groups: claims.groups.length > 0 ? claims.groups : undefined,
    issuer,
    subject,
    provider: providerId(settings, account, via),
  };
  const known = names.filter((name) => all[name] !== undefined);
  return Object.fromEntries(known.map((name) => [name, all[name]]));
}

/** Returns the names of the claims, in the order of `CALLER_CLAIMS`. */
export function claimNames(claims: CallerClaims): CallerClaim[] {
  return CALLER_CLAIMS.filter((name) => claims[name] !== undefined);
}

function providerId(
  settings: ProviderSettings,
  { issuer, providerIssuer = issuer }: Account,
  via: Via,
): string | undefined {
  const wanted = via === 'sign-in' ? providerIssuer : issuer;
  return identitySourcesOf(settings).find(
    (source) => source.via === via && isSameIssuer(source.issuer, wanted),
  )?.id;
}
