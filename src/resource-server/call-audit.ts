import { type AuditServices, digestOf, recordAuditDurably } from '../audit/audit.ts';
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
  'Calls with this permission level must be recorded, and this call could not be recorded. Try again in a moment.';

/** Of the arguments of a refused call, which a client can repeat freely, only the hash is recorded. */
export function callAuditor(services: AuditServices): AuditCall {
  return ({ caller, tool, arguments: given, outcome }) => {
    const { accountId: account, clientId, connector, grantId } = caller;
    const who = {
      account,
      clientId,
      ...(connector ? { connector } : {}),
      ...(grantId ? { grantId } : {}),
    };
    const recorded = outcome === 'allowed' ? given : digestOf(given);
    return recordAuditDurably(services, {
      event: 'call',
      ...who,
      tool,
      arguments: recorded,
      outcome,
    });
  };
}
