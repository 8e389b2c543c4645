// Records the calls of a request before they are made, and keeps their arguments, as the level of the caller requires.
import { digestOf } from '../audit/audit.ts';
import { isRecorded, type Levels, recordsArguments } from '../permission-levels.ts';
import type { Services } from '../services.ts';
import type { AuthenticatedCall } from './call.ts';
import { type CallAudit, type CallRecord, recordsOf, requireOpen } from './call-audit.ts';
import {
  errorResponse,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  isRequest,
  type Message,
} from './json-rpc.ts';

export const AUDIT_FAILED =
  'Calls with this permission level must be recorded, and this call could not be recorded. Try again in a moment.';

export const ARGUMENTS_TOO_LONG =
  'Calls with this permission level must be recorded, and these arguments are too long for that: they may have 64 kB of JSON, in which texts and lists above 1 kB count little.';

export type RecordedCall = Pick<AuthenticatedCall, 'caller' | 'revalidate' | 'recorded'>;

/** In bytes of JSON. */
const MAX_ARGUMENTS_BYTES = 64 * 1024;
const MAX_MEMBER_BYTES = 1024;

/**
 * Returns error responses to all requests if a call cannot be recorded, or if the arguments of one are too long for that. Undefined at once if its level is not recorded. Throws like
 * `revalidate` if the caller lost the right meanwhile, because recording may take seconds, and if the client has disconnected.
 */
export function recordCalls(
  { audit, levels, logger }: { audit: CallAudit; levels: Levels; logger: Services['logger'] },
  call: RecordedCall,
  messages: readonly Message[],
): object[] | undefined | Promise<object[] | undefined> {
  const { level } = call.caller;
  if (recordsArguments(levels, level)) {
    // The items of a call that has ended wait to be stored, and must not change.
    requireOpen(call);
    if (!keepArguments(call, messages))
      return failAll(messages, INVALID_PARAMS, ARGUMENTS_TOO_LONG);
  }
  return isRecorded(levels, level) ? storeCalls({ audit, logger }, call, messages) : undefined;
}

function failAll(messages: readonly Message[], code: number, message: string): object[] {
  return messages.filter(isRequest).map(({ id }) => errorResponse(id, { code, message }));
}

async function storeCalls(
  { audit, logger }: { audit: CallAudit; logger: Services['logger'] },
  call: RecordedCall,
  messages: readonly Message[],
): Promise<object[] | undefined> {
  requireOpen(call);
  try {
    await audit.start(call);
  } catch (error) {
    logger.error({ err: error }, 'a call was refused, because the audit log could not record it');
    for (const record of recordsOf(call)) refuse(record, 'temporarily_unavailable');
    return failAll(messages, INTERNAL_ERROR, AUDIT_FAILED);
  }
  requireOpen(call);
  await call.revalidate();
  return undefined;
}

/** Returns false, after refusing all calls, if the arguments of one are too long. */
function keepArguments(call: RecordedCall, messages: readonly Message[]): boolean {
  const records = recordsOf(call).filter(({ outcome }) => outcome === undefined);
  let areKept = true;
  for (const record of records) {
    const given = argumentsOf(messages[record.index]);
    const json = recordableArguments(given);
    if (json !== undefined) {
      record.item.argumentsJson = json;
      continue;
    }
    areKept = false;
    record.item.arguments = digestOf(given);
    refuse(record, 'arguments_too_long');
  }
  if (!areKept) for (const record of records) refuse(record, 'batch_refused');
  return areKept;
}

function refuse(record: CallRecord, reason: string): void {
  record.outcome = 'refused';
  record.reason ??= reason;
}

/** Of requests other than tool calls, all params. */
function argumentsOf({ method, params = {} }: Partial<Message> = {}): unknown {
  return method === 'tools/call' ? (params['arguments'] ?? {}) : params;
}

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
