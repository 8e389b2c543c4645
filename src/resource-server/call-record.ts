// The record of a call that is made with the level `full`: written before the call runs, which is refused when it cannot be.
import { type AuditServices, recordAuditDurably } from '../audit/audit.ts';
import type { Caller } from './level.ts';

export type CallRecord = { caller: Caller; tool: string; arguments: unknown; outcome: 'allowed' };

/** Resolves when it is stored. */
export type RecordCall = (entry: CallRecord) => Promise<void>;

export const UNRECORDED =
  'Calls with the level full are recorded first, and this one could not be, so it was refused. Try again in a moment.';

export function callRecorder(services: AuditServices): RecordCall {
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
