// What a replay does with each kind of item of the audit log. TypeScript refuses a kind that is missing here.
import type { AuditItem } from '../audit/audit.ts';
import { ruleSubjectIn } from '../clients/rules.ts';
import type { AuditEvent } from '../observability/labels.ts';
import { accountState, forgottenPerson, sessions } from './subjects/account.ts';
import { client, clientRule } from './subjects/client.ts';
import { connectorChange, connectorEnd } from './subjects/connector.ts';
import { credential } from './subjects/credential.ts';
import { connectionEnd, connectionLevel } from './subjects/grant.ts';
import { keptOut } from './subjects/kept-out.ts';
import { machineChange, machineKey } from './subjects/machine.ts';
import { signingKeys } from './subjects/signing-key.ts';
import type { Subject } from './subjects/subject.ts';
import { tokenEnd, tokenChange } from './subjects/token.ts';
import { workload } from './subjects/workload.ts';

/** In the order of a replay. The connection of an old key holds the use of its machine until the machine has another one. */
export const SUBJECTS = {
  accountState,
  forgottenPerson,
  sessions,
  client,
  clientRule,
  connectorChange,
  connectorEnd,
  tokenChange,
  tokenEnd,
  machineKey,
  machineChange,
  connectionLevel,
  connectionEnd,
  keptOut,
  credential,
  workload,
  signingKeys,
} as const satisfies Record<string, Subject>;

export type SubjectName = keyof typeof SUBJECTS;

/** What it took away or gave back, or why a replay needs nothing of it. */
type Decision = { of: readonly SubjectName[] } | { none: string };

const GIVES = 'it gave something, which a restore may lose';
const READS = 'it changed nothing that gives access';
const ABOUT_LOG = 'it is about the audit log itself';

export const DECISIONS = {
  access_refused: { none: READS },
  account_disabled: { of: ['accountState'] },
  account_enabled: { of: ['accountState'] },
  account_forgotten: { of: ['forgottenPerson'] },
  audit_dropped: { none: ABOUT_LOG },
  audit_read: { none: ABOUT_LOG },
  audit_settings_changed: { none: 'settings are not in the store' },
  audit_trimmed: { none: ABOUT_LOG },
  backchannel_logout: { of: ['sessions'] },
  call: { none: READS },
  call_ended: { none: READS },
  checkpoint: { none: ABOUT_LOG },
  client_allowed: { of: ['client', 'clientRule'] },
  client_blocked: { of: ['clientRule'] },
  client_registered: { none: GIVES },
  client_revoked: { of: ['client'] },
  client_rule_removed: { of: ['clientRule'] },
  client_waiting: { none: 'an app that waits has no access yet' },
  code_replay: { of: ['connectionEnd'] },
  connector_changed: { of: ['connectorChange'] },
  connector_created: { none: GIVES },
  connector_deleted: { of: ['connectorEnd'] },
  connector_revoked: { of: ['connectorEnd'] },
  consent_approved: { none: GIVES },
  consent_denied: { none: 'an approval that it ended is an item of its own' },
  console_sign_in: { none: GIVES },
  credential_connected: { of: ['credential'] },
  credential_ended: { of: ['credential'] },
  credential_failed: { none: 'what is stored stayed the same' },
  delivery_lost: { none: ABOUT_LOG },
  delivery_rejected: { none: ABOUT_LOG },
  delivery_resent: { none: ABOUT_LOG },
  grant_ended: { of: ['connectionEnd'] },
  grant_vouched: { none: GIVES },
  kept_out: { of: ['keptOut'] },
  kept_out_ended: { of: ['keptOut'] },
  keys_rewrapped: { none: 'the restored store opens with the root secret of its time' },
  level_lowered: { of: ['connectionLevel'] },
  level_raised: { of: ['connectionLevel'] },
  limit_reached: { none: READS },
  limits_reset: { none: GIVES },
  machine_changed: { of: ['machineChange'] },
  machine_created: { none: GIVES },
  machine_key_replaced: { of: ['machineKey'] },
  refresh_replay: { of: ['connectionEnd'] },
  restored: { none: ABOUT_LOG },
  rolled_back: { none: ABOUT_LOG },
  settings_reloaded: { none: 'settings are not in the store' },
  signed_in: { none: GIVES },
  signing_key_rotated: { of: ['signingKeys'] },
  step_up_failed: { none: READS },
  token_changed: { of: ['tokenChange'] },
  token_minted: { none: GIVES },
  token_revoked: { of: ['tokenEnd'] },
  tools_approved: { none: 'without the approval, the restored store holds the tool again' },
  tools_changed: { none: 'the tools are read and compared again' },
  upstream_connected: { none: 'only tools are read with it' },
  workload_ended: { of: ['workload'] },
  workload_paused: { of: ['workload'] },
  workload_refused: { none: READS },
  workload_resumed: { of: ['workload'] },
  workload_token: { none: GIVES },
} as const satisfies Record<AuditEvent, Decision>;

const GIVE_BACK: ReadonlySet<string> = new Set<AuditEvent>([
  'account_enabled',
  'client_allowed',
  'kept_out_ended',
  'level_raised',
  'workload_resumed',
]);

/** Of an interrupted change, nobody knows whether it was made. If it was to give something back, a replay goes by what was before. */
function mayHaveGivenBack({ event, outcome, arguments: details }: AuditItem): boolean {
  if (outcome !== 'interrupted') return false;
  const isEndOfBlock =
    event === 'client_rule_removed' && ruleSubjectIn(details)?.effect === 'block';
  return isEndOfBlock || GIVE_BACK.has(event);
}

/** What the item is about, as far as a replay needs it: one entry for each subject. */
export function subjectsOf(item: AuditItem): { name: SubjectName; id: string }[] {
  if (mayHaveGivenBack(item)) return [];
  const decision: Decision | undefined = Object.hasOwn(DECISIONS, item.event)
    ? DECISIONS[item.event as AuditEvent]
    : undefined;
  if (!decision || 'none' in decision) return [];
  return decision.of.flatMap((name) => {
    const id = SUBJECTS[name].idIn(item);
    return id === undefined ? [] : [{ name, id }];
  });
}
