// Closed lists of metric label values. A value outside its list is counted as `other`.

/** Error codes of refused requests: our own, and those of RFC 6749, 6750, 7009, 7591, 8707 and OpenID Connect Core. */
export const refusalReasons = [
  'access_denied',
  'account_disabled',
  'account_selection_required',
  'app_without_name',
  'authorization_pending',
  'bad_gateway',
  'changed_meanwhile',
  'client_blocked',
  'client_gone',
  'client_revoked',
  'client_waiting',
  'connector_ended',
  'connector_paused',
  'consent_required',
  'device_expired',
  'expired',
  'expired_token',
  'forbidden',
  'forbidden_origin',
  'gateway_timeout',
  'gone',
  'header_mismatch',
  'insufficient_scope',
  'interaction_required',
  'invalid_client',
  'invalid_client_metadata',
  'invalid_dpop_proof',
  'invalid_grant',
  'invalid_message',
  'invalid_redirect_uri',
  'invalid_request',
  'invalid_request_object',
  'invalid_request_uri',
  'invalid_scope',
  'invalid_software_statement',
  'invalid_target',
  'invalid_settings',
  'invalid_token',
  'kept_out',
  'limit_reached',
  'login_required',
  'machine_ended',
  'workload_ended',
  'method_not_allowed',
  'method_not_found',
  'misdirected_request',
  'not_administrator',
  'not_found',
  'parse_error',
  'registration_not_supported',
  'reload_in_progress',
  'apply_in_progress',
  'too_many_endings',
  'invalid_file',
  'request_not_supported',
  'request_uri_not_supported',
  'response_too_large',
  'restart_required',
  'rotation_pending',
  'earlier_root_secret',
  'secrets_differ',
  'server_error',
  'sign_in_not_set_up',
  'slow_down',
  'still_in_use',
  'temporarily_unavailable',
  'token_required',
  'too_many_rules',
  'unapproved_software_statement',
  'unauthorized_client',
  'unknown_session',
  'unmet_authentication_requirements',
  'unsupported_grant_type',
  'unsupported_response_mode',
  'unsupported_response_type',
  'unsupported_token_type',
  'use_dpop_nonce',
  'used_up',
] as const;

/** Of asking an identity provider about a person again. `failed`: it gave no valid answer. */
export const recheckOutcomes = ['answered', 'ended', 'sign_in_again', 'failed'] as const;

export const grantTypes = [
  'authorization_code',
  'refresh_token',
  'client_credentials',
  'urn:ietf:params:oauth:grant-type:jwt-bearer',
  'urn:ietf:params:oauth:grant-type:device_code',
] as const;

export const flowSteps = [
  'register',
  'authorize',
  'device',
  'sign-in',
  'consent',
  'exchange',
  'refresh',
  'revoke',
] as const;
export type FlowStep = (typeof flowSteps)[number];

/** `denied`: a person declined. `refused`: the request was invalid. `failed`: an error of Gatehouse or of a server it depends on. */
export const flowOutcomes = ['done', 'denied', 'refused', 'limited', 'failed'] as const;
export type FlowOutcome = (typeof flowOutcomes)[number];

export const upstreamFaults = ['bad_gateway', 'gateway_timeout', 'response_too_large'] as const;

/** Whose calls a limit on calls counts. */
export const callLimitKinds = [
  'person',
  'connection',
  'level',
  'tool',
  'connector',
  'machine',
  'workload',
  'token',
] as const;
export type CallLimitKind = (typeof callLimitKinds)[number];
/** `alert`: deserves suspicion. */
export const toolChangeSeverities = ['alert', 'note'] as const;

export const storeVerbs = [
  'get',
  'set',
  'add',
  'take',
  'delete',
  'update',
  'replicated',
  'addMember',
  'removeMember',
  'members',
  'includes',
  'page',
  'append',
  'range',
  'appendLog',
  'appendMarked',
  'logMark',
  'replaceLogEntries',
  'readLog',
  'readLogEntries',
  'lastInLog',
  'beginLogEpoch',
  'readLogBlocks',
  'trimLog',
  'ping',
  'publish',
  'count',
] as const;
export type StoreVerb = (typeof storeVerbs)[number];

/** Why items are not in the audit log: too many waited, or the store has little room. */
export const dropReasons = ['buffer_full', 'store_full'] as const;
export type DropReason = (typeof dropReasons)[number];

/** Why a person gets no access through a connector. */
export const accessRefusals = [
  'no_rule',
  'not_in_audience',
  'level_gone',
  'used_up',
  'connector_revoked',
  'connector_expired',
  'connector_paused',
  'account_disabled',
  'client_blocked',
  'client_waiting',
  'kept_out',
] as const;
export type AccessRefusal = (typeof accessRefusals)[number];

/** Values of `event` in the audit log. */
export const auditEvents = [
  'access_refused',
  'account_disabled',
  'account_enabled',
  'account_forgotten',
  'audit_dropped',
  'audit_read',
  'audit_settings_changed',
  'audit_trimmed',
  'backchannel_logout',
  'call',
  'call_ended',
  'checkpoint',
  'client_allowed',
  'client_blocked',
  'client_registered',
  'client_revoked',
  'client_rule_removed',
  'client_waiting',
  'code_replay',
  'connector_changed',
  'connector_created',
  'connector_deleted',
  'connector_revoked',
  'consent_approved',
  'consent_denied',
  'console_sign_in',
  'credential_connected',
  'credential_ended',
  'credential_failed',
  'delivery_lost',
  'delivery_rejected',
  'delivery_resent',
  'grant_ended',
  'grant_vouched',
  'kept_out',
  'kept_out_ended',
  'level_lowered',
  'level_raised',
  'limit_reached',
  'limits_reset',
  'machine_changed',
  'machine_created',
  'machine_key_replaced',
  'refresh_replay',
  'restored',
  'rolled_back',
  'settings_reloaded',
  'signed_in',
  'signing_key_rotated',
  'keys_rewrapped',
  'step_up_failed',
  'token_changed',
  'token_minted',
  'token_revoked',
  'tools_approved',
  'tools_changed',
  'upstream_connected',
  'workload_ended',
  'workload_paused',
  'workload_refused',
  'workload_token',
  'workload_resumed',
] as const;
export type AuditEvent = (typeof auditEvents)[number];

/** What can end at a known time. */
export const endKinds = ['connector', 'token', 'machine', 'signing_key', 'client_secret'] as const;
export type EndKind = (typeof endKinds)[number];
