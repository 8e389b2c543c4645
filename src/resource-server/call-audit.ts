import { type AuditServices, recordAuditDurably } from '../audit/audit.ts';
import type { Caller } from './authenticate.ts';

/** A call with the level `full`. */
export type AuditedCall = { caller: Caller; tool: string; arguments: unknown; outcome: 'allowed' };

/** Resolves when the entry is stored. Calls run only after that. */
export type AuditCall = (call: AuditedCall) => Promise<void>;

export const AUDIT_FAILED =
  'Calls with the level full are recorded first, and this one could not be, so it was refused. Try again in a moment.';

export function callAuditor(services: AuditServices): AuditCall {
  return ({ caller, tool, arguments: given, outcome }) => {
    const { accountId: account, clientId, connector, grantId } = caller;
    const who = {
      account,
      clientId,
      ...(connector ? { connector } : {}),
      ...(grantId ? { grantId } : {}),
    };
    const item = { event: 'call', ...who, tool, arguments: given, outcome };
    return recordAuditDurably(services, item);
  };
}
