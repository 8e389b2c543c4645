// The sign-in behind an interaction, which the identity provider or an administrator may have ended since.
import { type Account, isSessionValid } from '../people/account.ts';
import { HttpError } from '../http/errors.ts';
import type { Interaction, InteractionContext, SignInResult } from './interaction.ts';

/** Throws 400 `expired` if neither the browser's session nor a sign-in of this interaction counts any more. */
export async function requireSignedIn(
  { engine }: InteractionContext,
  { session }: Interaction,
  account: Account,
  { login }: SignInResult,
): Promise<void> {
  if (login?.accountId === account.id && isSessionValid(account, login.ts)) return;
  const { Session } = engine.provider();
  const { accountId, loginTs } =
    (session?.uid === undefined ? undefined : await Session.findByUid(session.uid)) ?? {};
  if (accountId === account.id && loginTs !== undefined && isSessionValid(account, loginTs)) return;
  throw new HttpError(400, 'expired', 'the sign-in session has ended');
}
