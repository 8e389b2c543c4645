// Minted tokens that were revoked, end earlier or open fewer tools.
import type { AuditItem } from '../../audit/audit.ts';
import {
  findMintedToken,
  mintedTokenId,
  revokeMintedToken,
  updateMintedToken,
} from '../../links/minted-tokens.ts';
import { isUncertain, narrowedLimits, type Subject } from './subject.ts';

const idIn = ({ clientId }: AuditItem) => clientId && mintedTokenId(clientId);

export const tokenEnd: Subject = {
  idIn,
  async plan({ services: { store } }, id) {
    if (!(await findMintedToken(store, id))) return undefined;
    return async () => void (await revokeMintedToken(store, id));
  },
};

export const tokenChange: Subject = {
  idIn,
  async plan(restoring, id, items) {
    const { store, now } = restoring.services;
    if (isUncertain(items)) return tokenEnd.plan(restoring, id, items);
    const token = await findMintedToken(store, id);
    const change = token && narrowedLimits(token, items);
    if (!change) return undefined;
    return async () =>
      void (await updateMintedToken(store, id, (one) => ({ ...one, ...change }), now()));
  },
  async hint({ services: { store } }, id, items) {
    const isEnded = isUncertain(items) && !(await findMintedToken(store, id));
    return isEnded
      ? `the minted token ${id} was revoked, because its change was too long for the log, or interrupted: mint another`
      : undefined;
  },
};
