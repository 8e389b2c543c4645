import { type Credential, credentialId, credentialIdParts } from '../credentials/credential.ts';
import { listCredentials } from '../credentials/credentials.ts';
import { endCredential } from '../credentials/end.ts';
import { notFound } from '../http/errors.ts';
import { findAccount } from '../people/accounts.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { firstPage, represent } from './represent.ts';
import {
  type CredentialResource,
  type credentialOperations,
  credentialSchema,
} from './resources/credential.ts';

export const credentialHandlers: Handlers<keyof typeof credentialOperations> = {
  async listCredentials(management, { query: { limit, after = '', account, upstream } }) {
    const filter = {
      ...(account === undefined ? {} : { account }),
      ...(upstream === undefined ? {} : { upstream }),
    };
    const all = await listCredentials(management.services.store, filter);
    // By id, so that a list continues although the last credential of a page has ended.
    const identified = all
      .map((stored) => ({ id: credentialId(stored), stored }))
      .filter(({ id }) => id > after)
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    const { items, next } = firstPage(identified, limit);
    const shown = await Promise.all(items.map(({ stored }) => resource(management, stored)));
    return next === undefined ? { items: shown } : { items: shown, next };
  },

  async endCredential(management, { id }) {
    const owner = credentialIdParts(id);
    const ended =
      owner &&
      (await endCredential(management, owner, {
        cause: 'ended_by_administrator',
        by: management.by,
      }));
    if (!ended) throw notFound('there is no credential with this id');
    return resource(management, ended);
  },
};

async function resource(
  { services }: ManagementContext,
  stored: Credential,
): Promise<CredentialResource> {
  const account = await findAccount(services.store, stored.account);
  return represent(credentialSchema, {
    ...stored,
    id: credentialId(stored),
    accountName: account?.name || undefined,
    isRenewed: stored.refreshToken !== undefined,
    ...(stored.expiresAt === undefined ? {} : { expiresAt: Math.floor(stored.expiresAt) }),
    ...(stored.failedAt === undefined ? {} : { failedAt: Math.floor(stored.failedAt) }),
  });
}
