// Records the calls of callers with a recorded level, before they are made.
import type { LevelRules } from '../../upstreams/tool-levels.ts';
import { isRecorded } from '../../permission-levels.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import {
  ARGUMENTS_TOO_LONG,
  AUDIT_FAILED,
  type AuditedCall,
  recordableArguments,
} from '../call-audit.ts';
import {
  errorResponse,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  isRequest,
  type Message,
} from '../json-rpc.ts';
import { requiredBy } from './levels.ts';
import type { Proxy } from './proxy.ts';

/**
 * Records the calls of a caller with a recorded level. Returns error responses to all requests if that fails, or if one is too long to record.
 * Throws like `revalidate` if the caller lost the right meanwhile, because recording may take seconds.
 */
export async function recordCalls(
  { audit, services }: Proxy,
  rules: LevelRules,
  { caller, revalidate }: AuthenticatedCall,
  messages: readonly Message[],
): Promise<object[] | undefined> {
  if (!isRecorded(rules.levels, caller.level)) return undefined;
  const failAll = (code: number, message: string) =>
    messages.filter(isRequest).map(({ id }) => errorResponse(id, { code, message }));
  const calls = messages.flatMap((message) => {
    const required = requiredBy(rules, message);
    return required ? [auditedCall(caller, required.tool, message)] : [];
  });
  const refused = calls.filter(({ outcome }) => outcome === 'refused');
  try {
    for (const call of refused.length > 0 ? refused : calls) await audit(call);
  } catch (error) {
    services.logger.error(
      { err: error },
      'a call was refused, because the audit log could not record it',
    );
    return failAll(INTERNAL_ERROR, AUDIT_FAILED);
  }
  if (refused.length > 0) return failAll(INVALID_PARAMS, ARGUMENTS_TOO_LONG);
  await revalidate();
  return undefined;
}

/** Requests other than tool calls are audited with their method and all params. */
function auditedCall(caller: Caller, tool: string, { method, params = {} }: Message): AuditedCall {
  const given = method === 'tools/call' ? (params['arguments'] ?? {}) : params;
  const argumentsJson = recordableArguments(given);
  return argumentsJson === undefined
    ? { caller, tool, outcome: 'refused', arguments: given }
    : { caller, tool, outcome: 'allowed', argumentsJson };
}
