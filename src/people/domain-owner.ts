// Who may assert an email address: of a domain in a provider's `emailDomains`, only that provider. Pure: no I/O.
import { type IdentitySource, ownerOf } from '../settings/entitlements.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Claims, type Identity, printableName } from './account.ts';

type DomainOwners = readonly Pick<IdentitySource, 'issuer' | 'emailDomains'>[];
type Asserter = Pick<Identity, 'issuer' | 'providerIssuer' | 'subject'>;

/** Returns what a party asserts, with an address in the domain of another provider as one that is not verified, and not as a name. */
export function withOwnEmail<Of extends Partial<Pick<Claims, 'name' | 'email' | 'emailVerified'>>>(
  owners: DomainOwners,
  claims: Of,
  { issuer, providerIssuer = issuer, subject }: Asserter,
): Of {
  const { email, name } = claims;
  const owner = email === undefined ? undefined : ownerOf({ email }, owners);
  if (!owner || isSameIssuer(owner.issuer, providerIssuer)) return claims;
  const isName = name === email;
  return { ...claims, emailVerified: false, ...(isName ? { name: printableName(subject) } : {}) };
}
