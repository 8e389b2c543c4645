// Minted tokens that were revoked, end earlier or open fewer tools.
import type { AuditItem } from '../../audit/audit.ts';
import {
  findMintedToken,
  mintedTokenId,
  revokeMintedToken,
  updateMintedToken,
} from '../../links/minted-tokens.ts';
import { lastValues, narrowedCalls, narrowedTools, secondsIn, type Subject } from './subject.ts';

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
  async plan({ services: { store, now } }, id, items) {
    const token = await findMintedToken(store, id);
    if (!token) return undefined;
    const values = lastValues(items);
    const expiresAt = Math.min(token.expiresAt, secondsIn(values['expiresAt']) ?? Infinity);
    const tools = narrowedTools(token.tools, values['tools']);
    const calls = narrowedCalls(token.calls, values['calls']);
    if (!tools && !calls && expiresAt === token.expiresAt) return undefined;
    const change = { expiresAt, ...(tools ? { tools } : {}), ...(calls ? { calls } : {}) };
    return async () =>
      void (await updateMintedToken(store, id, (one) => ({ ...one, ...change }), now()));
  },
};
