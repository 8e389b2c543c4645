import { type AuditServices, digestOf, recordAuditDurably } from '../audit/audit.ts';
import type { OpenCounter } from '../store/counters.ts';
import type { Caller } from './authenticate.ts';

/** A call with a recorded level. A `refused` one fails before the tool runs. */
export type AuditedCall = {
  caller: Caller;
  tool: string;
  arguments: unknown;
  outcome: 'allowed' | 'refused';
};

/** Resolves when the entry is stored. Calls run only after that. */
export type AuditCall = (call: AuditedCall) => Promise<void>;

export const AUDIT_FAILED =
  'Calls with this permission level are recorded first, and this one could not be, so it was refused. Try again in a moment.';

/** Refused calls of one connection or minted token that are recorded in a minute. One more item then says that the others are not. */
const MAX_REFUSED = 30;
const REFUSED_SECONDS = 60;

/** Allowed calls are always recorded. Of refused ones, which a client can repeat freely, only some, and of their arguments only the hash. */
export function callAuditor(services: AuditServices, openCounter: OpenCounter): AuditCall {
  const countRefused = openCounter('recorded refused calls', REFUSED_SECONDS);
  return async ({ caller, tool, arguments: given, outcome }) => {
    const { accountId: account, clientId, connector, grantId, tokenId } = caller;
    const who = {
      account,
      clientId,
      ...(connector ? { connector } : {}),
      ...(grantId ? { grantId } : {}),
    };
    const call = { event: 'call', ...who, tool };
    if (outcome === 'allowed')
      return recordAuditDurably(services, { ...call, arguments: given, outcome });
    const { count } = await countRefused(grantId ?? tokenId);
    if (count > MAX_REFUSED + 1) return undefined;
    return recordAuditDurably(services, {
      ...call,
      arguments: digestOf(given),
      outcome: count > MAX_REFUSED ? 'refused_unrecorded' : outcome,
    });
  };
}
