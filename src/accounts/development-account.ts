// The account of a person of the development identity provider, as the first sign-in would make it.
import type { Settings } from '../settings/settings.ts';
import type { Account } from './account.ts';

type DevelopmentIdp = NonNullable<Settings['developmentIdp']>;

export function developmentAccount(
  issuer: string,
  { id, name, email, groups }: DevelopmentIdp['people'][number],
): Account {
  return { id, issuer, subject: id, name, email, emailVerified: true, groups, signedInAt: 0 };
}
