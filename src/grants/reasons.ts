// Reason codes for ended connections and refused refreshes.

/** English texts for people without a technical background. */
export const REASONS = {
  refresh_replay:
    'The same refresh token was used twice. Somebody else may have had a copy, so the connection was ended.',
  code_replay:
    'The same authorization code was used twice. Somebody else may have had a copy, so the connection was ended.',
  revoked_by_client: 'The app itself ended the connection.',
  many_tokens_revoked: 'The app revoked so many access tokens that the connection was ended.',
  disconnected: 'The person disconnected the app.',
  denied: 'The person approved the connection and then denied it.',
  revoked_by_administrator: 'An administrator ended the connection.',
  client_blocked: 'An administrator blocked this app.',
  client_revoked: 'An administrator ended all connections of this app.',
  client_gone: 'The app is not registered any more.',
  connector_revoked: 'The connect link was revoked.',
  connector_expired: 'The connect link has expired.',
  connector_deleted: 'The connect link was deleted.',
  connector_unconfigured:
    'The settings no longer have the level or the MCP server of the connect link.',
  level_removed: 'The permission level no longer exists in the settings.',
  account_disabled: 'The account of the person was disabled.',
  identity_provider_ended: 'The identity provider ended the session or the account of the person.',
  identity_provider_unavailable:
    'The identity provider has not answered for so long that access is paused. It works again once the provider answers.',
  sign_in_again:
    'The identity provider cannot be asked about the person again. The person has to sign in again.',
  account_deleted: 'The account of the person is not known any more.',
  not_entitled: 'The person may not use this connect link any more.',
  not_in_audience:
    'The connect link is only for certain people, and the person is not one of them any more.',
  dpop_required:
    'The settings require that the app binds this level to a key (DPoP), and the app did not.',
  idle: 'The connection was not used for so long that it ran out.',
  absolute: 'The connection reached the longest time that one approval lasts.',
  not_renewable: 'The person did not let the app stay connected, so the access ran out.',
  never_used: 'The app never fetched what the person approved.',
} as const;

export type Reason = keyof typeof REASONS;

/** Another version may have stored a code that is not in the list. */
export function reasonText(reason: string): string {
  return isReason(reason) ? REASONS[reason] : `The reason is recorded as ${reason}.`;
}

function isReason(reason: string): reason is Reason {
  return Object.hasOwn(REASONS, reason);
}
