// Ends credentials: deleted at once, then revoked at the service.
import { recordAudit } from '../audit/audit.ts';
import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import type { Services } from '../services.ts';
import type { Credential, CredentialEnd } from './credential.ts';
import { deleteCredential, findCredential, markCredentialEnd, type Owner } from './credentials.ts';
import { OPERATOR } from './operator.ts';
import { type RevocationSettings, revokeAtService } from './revocation.ts';

export type EndContext = {
  settings: RevocationSettings;
  services: Pick<Services, 'store' | 'now' | 'logger'> & Parameters<typeof recordAudit>[0];
};

/** Returns what it ended; undefined if there is none, or `isSame` does not hold of it. */
export async function endCredential(
  { settings, services }: EndContext,
  owner: Owner,
  {
    cause,
    by,
    isSame,
  }: { cause: CredentialEnd; by?: string | undefined; isSame?: (current: Credential) => boolean },
): Promise<Credential | undefined> {
  await markCredentialEnd(services.store, owner);
  const current = await findCredential(services.store, owner);
  if (!current) return undefined;
  return recordChange(services, endItem(current, cause, by), {
    async make() {
      const ended = await deleteCredential(services.store, owner, isSame);
      if (ended) await revokeAtService(settings, services, ended);
      return ended;
    },
    itemOf: (ended) => ended && endItem(ended, cause, by),
  });
}

export async function recordCredentialEnd(
  services: Parameters<typeof recordAudit>[0],
  ended: Credential,
  cause: CredentialEnd,
): Promise<void> {
  await recordAudit(services, { ...endItem(ended, cause), outcome: 'done' });
}

function endItem(
  { account, upstream, name }: Credential,
  cause: CredentialEnd,
  by?: string,
): ChangeItem {
  return {
    event: 'credential_ended',
    ...(account === OPERATOR ? {} : { account }),
    upstream,
    by,
    arguments: { cause, ...(name === undefined ? {} : { name }) },
  };
}
