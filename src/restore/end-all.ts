// For a store without an export: nobody keeps access that may have been taken away. Connectors stay.
import { endConnection, listConnections } from '../connections/connections.ts';
import { listMintedTokens, mintedSubject, revokeMintedToken } from '../links/minted-tokens.ts';
import { recordAudit } from '../audit/audit.ts';
import { accountLifetime, withSessionsEnded } from '../people/account.ts';
import { allAccounts, updateAccount } from '../people/accounts.ts';
import type { Restoring } from './subjects/subject.ts';

/** Yields for each token and connection whether it was ended now. */
export async function* endAll({ settings, services, by }: Restoring): AsyncGenerator<boolean> {
  const { store, now } = services;
  for (const { id, name, level } of await listMintedTokens(store, now())) {
    const about = { clientId: mintedSubject(id), by, arguments: { name, level } };
    await recordAudit(services, { event: 'token_revoked', ...about, outcome: 'done' });
    yield (await revokeMintedToken(store, id)) !== undefined;
  }
  // A stolen session could connect again.
  const started = now();
  for await (const { id } of allAccounts(store))
    await updateAccount(store, id, accountLifetime(settings), (one) =>
      withSessionsEnded(one, started),
    );
  for await (const { item } of listConnections(settings, services, {}))
    if (item.state !== 'ended')
      yield await endConnection(services, item, 'revoked_by_administrator', by);
}
