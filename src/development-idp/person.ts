// A person of the development identity provider, and the standard claims said about one (OpenID Connect Core 1.0 section 5.1).

/** `id` is the subject: what `sub` says and what the pick-a-person form posts. */
export type Person = { id: string; name: string; email: string; groups: string[] };

/** Which claims a scope gives; the scopes there are. */
export const CLAIMS_BY_SCOPE = {
  openid: ['sub'],
  profile: ['name'],
  email: ['email', 'email_verified'],
  groups: ['groups'],
};

export function claimsOf({ id, name, email, groups }: Person) {
  return { sub: id, name, email, email_verified: true, groups };
}
