// The name of a person, out of what an identity provider says. Pure: no I/O.
import type { Identity } from './account.ts';

/** The first that can be shown as a name: an e-mail address is one only when it is the verified address of the person. */
export function personNameIn(
  candidates: readonly unknown[],
  { email, emailVerified }: { email?: string | undefined; emailVerified?: boolean | undefined },
): string | undefined {
  const verified = emailVerified === true ? email : undefined;
  return candidates
    .filter((text) => typeof text === 'string')
    .find((text) => text !== '' && (!looksLikeAddress(text) || text === verified));
}

/** Also with one of the other signs that look like an at sign. */
function looksLikeAddress(text: string): boolean {
  return /\S@\S/.test(text.normalize('NFKC'));
}

/** The address, when the identity provider says that it was verified. */
export function verifiedEmailOf({
  email,
  emailVerified,
}: Pick<Identity, 'email' | 'emailVerified'>): string | undefined {
  return emailVerified ? email : undefined;
}
