import { type AuditServices, digestOf, recordAuditDurably } from '../audit/audit.ts';
import type { Caller } from './authenticate.ts';

/** A call with a recorded level. A `refused` one fails before the tool runs. `argumentsJson` is made by `recordableArguments`. */
export type AuditedCall = {
  caller: Caller;
  tool: string;
} & ({ outcome: 'allowed'; argumentsJson: string } | { outcome: 'refused'; arguments: unknown });

/** Resolves when the entry is stored. Calls run only after that. */
export type AuditCall = (call: AuditedCall) => Promise<void>;

export const AUDIT_FAILED =
  'Calls with this permission level must be recorded, and this call could not be recorded. Try again in a moment.';

export const ARGUMENTS_TOO_LONG =
  'Calls with this permission level must be recorded, and these arguments are too long for that: they may have 64 kB of JSON, in which texts and lists above 1 kB count little.';

/** In bytes of JSON. */
const MAX_ARGUMENTS_BYTES = 64 * 1024;
const MAX_MEMBER_BYTES = 1024;

/**
 * Returns the JSON text of the arguments of a call. In longer arguments, large texts and lists are replaced by their length and hash, at any
 * depth of objects, so that what pads a call does not hide whom it is about. Undefined if they are still too long.
 */
export function recordableArguments(given: unknown): string | undefined {
  const whole = JSON.stringify(given);
  if (Buffer.byteLength(whole) <= MAX_ARGUMENTS_BYTES) return whole;
  const shorter = JSON.stringify(given, (_name, value: unknown) =>
    isLarge(value) ? digestOf(value) : value,
  );
  return Buffer.byteLength(shorter) <= MAX_ARGUMENTS_BYTES ? shorter : undefined;
}

function isLarge(value: unknown): boolean {
  const isPadding = typeof value === 'string' || Array.isArray(value);
  return isPadding && Buffer.byteLength(JSON.stringify(value)) > MAX_MEMBER_BYTES;
}

/** Of the arguments of a refused call, which a client can repeat freely, only the hash is recorded. */
export function callAuditor(services: AuditServices): AuditCall {
  return async (call) => {
    const { tool, outcome } = call;
    const { accountId: account, clientId, connector, grantId } = call.caller;
    const who = {
      account,
      clientId,
      ...(connector ? { connector } : {}),
      ...(grantId ? { grantId } : {}),
    };
    const recorded =
      call.outcome === 'allowed'
        ? { argumentsJson: call.argumentsJson }
        : { arguments: digestOf(call.arguments) };
    await recordAuditDurably(services, { event: 'call', ...who, tool, ...recorded, outcome });
  };
}
