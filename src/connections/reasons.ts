// Reason codes for ended connections and refused refreshes.

/** English texts for people without a technical background. */
export const REASONS = {
  refresh_replay:
    'An old key for this connection (refresh token) was used again. Either the app has a bug, or someone copied the key. The connection was ended, so no copy of its key works. Other connections have their own keys.',
  code_replay:
    'The code from the person’s approval (authorization code) was used twice. Either the app has a bug, or someone copied it. The connection was ended.',
  revoked_by_client: 'The app ended the connection.',
  many_tokens_revoked: 'The app revoked so many access tokens that the connection was ended.',
  disconnected: 'The person disconnected the app.',
  denied: 'The person approved the connection and then denied it.',
  revoked_by_administrator: 'An administrator ended the connection.',
  client_blocked: 'An administrator blocked this app.',
  client_revoked: 'An administrator revoked this app.',
  key_replaced: 'An administrator replaced the secret or key of the machine.',
  client_gone: 'The app is no longer registered.',
  connector_revoked: 'The connector was revoked.',
  connector_expired: 'The connector has expired.',
  connector_deleted: 'The connector was deleted.',
  connector_unconfigured:
    'The connector’s access level or MCP server is no longer in the settings file.',
  connector_paused: 'The connector or its MCP server is paused.',
  rule_changed:
    'The level or the connector of the workload’s rule was changed in the settings file.',
  level_removed: 'The access level is no longer in the settings file.',
  account_disabled: 'The person’s account was disabled.',
  identity_provider_ended: 'The identity provider ended the person’s session or account.',
  identity_provider_unavailable:
    'Access is paused because the identity provider isn’t responding. It resumes when the provider responds.',
  sign_in_again:
    'The person’s account can no longer be checked with the identity provider. They have to sign in again.',
  account_deleted: 'The person’s account no longer exists.',
  not_entitled: 'This person no longer has access to this connector.',
  not_in_audience:
    'The connector is only for certain people, and the person is no longer one of them.',
  workload_gone: 'The rule of the workload is no longer in the settings file, or has expired.',
  dpop_required:
    'The settings file requires DPoP for this access level, and the app didn’t use it.',
  idle: 'The connection expired because it was unused for too long.',
  absolute: 'The connection reached its time limit.',
  not_renewable: 'The person didn’t let the app stay connected, so its access expired.',
  never_used: 'The app never used the approval.',
} as const;

export type Reason = keyof typeof REASONS;

/** Another version may have stored a code that is not in the list. */
export function reasonText(reason: string): string {
  return isReason(reason) ? REASONS[reason] : `The reason is recorded as ${reason}.`;
}

export function isReason(reason: string): reason is Reason {
  return Object.hasOwn(REASONS, reason);
}
