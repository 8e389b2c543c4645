// What a refusal of a person's token by the identity provider ends.
import type { AuditServices } from '../audit/audit.ts';
import { accountLifetime } from '../people/account.ts';
import { updateAccount } from '../people/accounts.ts';
import { endedByProvider, withoutToken } from '../people/recheck.ts';
import type { Settings } from '../settings/settings.ts';
import { endConnectionsEndedByProvider } from './connections.ts';

/** The use of a token: the lease under which it was sent, and whether a killed process had one before. */
export type TokenUse = { token: string; by: string; wasInterrupted: boolean };

/**
 * After the provider answered that the token is no longer valid. Returns whether the person's sign-ins and connections ended; undefined if a newer
 * token is stored. `endsPerson`: whether a refusal says that the person has left.
 */
export async function endAfterRefusal(
  settings: Settings,
  services: AuditServices,
  id: string,
  { token, by, wasInterrupted }: TokenUse,
  { endsPerson }: { endsPerson: boolean },
): Promise<boolean | undefined> {
  const { store, now } = services;
  let hasEnded = false;
  const changed = await updateAccount(store, id, accountLifetime(settings), (account) => {
    const { recheck } = account;
    if (recheck?.token !== token) return undefined;
    // The refusal says nothing about the person if a killed process used the token, or if the person has signed in since.
    hasEnded = endsPerson && !wasInterrupted && recheck.asking?.by === by;
    return hasEnded ? endedByProvider(account, now()) : withoutToken(account, token);
  });
  if (!changed?.first) return undefined;
  if (hasEnded) await endConnectionsEndedByProvider(settings, services, id);
  return hasEnded;
}
