// How an administrator ends the access of an app, and what each way is called: to the person, in the audit log and in what is counted.
import type { AccessRefusal } from '../observability/labels.ts';
import type { Reason } from './reasons.ts';

/** `reason` is that of the connections that it ended. `code` and `message` are of the person's page. */
export type AppEnd = { reason: Reason; refusal: AccessRefusal; code: string; message: string };

/** By the state of the app; `keptOut` only concerns one person. */
export const APP_ENDS = {
  blocked: {
    reason: 'client_blocked',
    refusal: 'client_blocked',
    code: 'client_blocked',
    message: 'an administrator has blocked this app',
  },
  revoked: {
    reason: 'client_revoked',
    refusal: 'client_blocked',
    code: 'client_revoked',
    message: 'an administrator has revoked this app',
  },
  keptOut: {
    reason: 'revoked_by_administrator',
    refusal: 'kept_out',
    code: 'kept_out',
    message: 'an administrator keeps this app away from the person',
  },
} as const satisfies Record<string, AppEnd>;

/** The end with this code. */
export function appEndWithCode(code: string): AppEnd | undefined {
  return Object.values(APP_ENDS).find((end) => end.code === code);
}
