// Ends credentials: deleted at once, then revoked at the service.
import { recordAudit } from '../audit/audit.ts';
import type { Services } from '../services.ts';
import type { Credential, CredentialEnd } from './credential.ts';
import { deleteCredential, markCredentialEnd, type Owner } from './credentials.ts';
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
  const ended = await deleteCredential(services.store, owner, isSame);
  if (!ended) return undefined;
  await revokeAtService(settings, services, ended);
  await recordCredentialEnd(services, ended, cause, by);
  return ended;
}

export async function recordCredentialEnd(
  services: Parameters<typeof recordAudit>[0],
  { account, upstream, name }: Credential,
  cause: CredentialEnd,
  by?: string,
): Promise<void> {
  await recordAudit(services, {
    event: 'credential_ended',
    ...(account === OPERATOR ? {} : { account }),
    upstream,
    by,
    arguments: { cause, ...(name === undefined ? {} : { name }) },
    outcome: 'done',
  });
}
