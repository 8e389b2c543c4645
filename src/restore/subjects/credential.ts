// Credentials of people at upstreams. What the store has was replaced or ended after the backup, so the person is asked again.
import { credentialId, credentialIdParts } from '../../credentials/credential.ts';
import { deleteCredential, findCredential } from '../../credentials/credentials.ts';
import { type Subject, timeOf } from './subject.ts';

export const credential: Subject = {
  idIn: ({ account, upstream }) =>
    account === undefined || upstream === undefined
      ? undefined
      : credentialId({ account, upstream }),
  async plan({ services: { store } }, id, items) {
    const owner = credentialIdParts(id);
    const stored = owner && (await findCredential(store, owner));
    const at = timeOf(items.at(-1) ?? { time: '' });
    // A later one was connected after the restore.
    if (!owner || !stored || stored.connectedAt > at) return undefined;
    return async () => void (await deleteCredential(store, owner));
  },
};
