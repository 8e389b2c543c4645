// The request that a person approves or denies. Read from the store for the page, and again for the decision.
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import type { Account } from '../../accounts/account.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { entitledLevel } from '../../accounts/entitlement.ts';
import { revokedSince } from '../../clients/clients.ts';
import { type Connector, isUsable } from '../../connectors/connector.ts';
import { connectorIdOf } from '../../connectors/connect-link.ts';
import { findConnector } from '../../connectors/connectors.ts';
import { HttpError } from '../../http/errors.ts';
import {
  highestLevelIn,
  type Level,
  levelsUpTo,
  lowest,
  OFFLINE_ACCESS,
  preselectedLevel,
} from '../../permission-level.ts';
import type { Entitlement } from '../../settings/entitlements.ts';
import type { Store } from '../../store/store.ts';
import { isOwnOrigin, type RedirectPolicy } from '../engine/redirect-uris.ts';
import { isIdentifiedByHost } from '../engine/client-metadata-documents.ts';
import type { Interaction, PageContent } from './interaction.ts';

export type ConsentRequest = {
  client: {
    id: string;
    name: string;
    kind: 'self-registered' | 'metadata-document' | 'pre-registered';
  };
  redirectUri: string;
  resource: string;
  connector: Connector;
  account: Account;
  /** Levels that may be granted, lowest first; empty if the person has no access to this connector. */
  levels: Level[];
  /** The level that the page preselects; undefined if the person must choose. */
  preselected: Level | undefined;
  /** Whether the request has the scope `offline_access`, after the setting `stayConnected` was applied. */
  requestsOfflineAccess: boolean;
};

export type ConsentRequestOptions = {
  provider: Provider;
  store: Store;
  resourceUrl: string;
  redirectPolicy: RedirectPolicy;
  entitlements: readonly Entitlement[];
  preRegistered: ReadonlySet<string>;
  now: () => number;
};

/** Throws if the client, redirect URI, connector or account is no longer valid. */
export async function requireConsentRequest(
  options: ConsentRequestOptions,
  interaction: Interaction,
): Promise<ConsentRequest> {
  const {
    client_id: clientId,
    redirect_uri: redirectUri,
    resource,
    scope,
  } = interaction.params as Record<string, string>;
  const [client, connector, account] = await Promise.all([
    requireClient(options, String(clientId), String(redirectUri)),
    requireConnector(options, String(resource)),
    requireAccount(options, interaction),
  ]);
  const entitled = entitledLevel(account, options.entitlements, 'sign-in');
  const asked = highestLevelIn(scope) ?? connector.level;
  const levels = entitled ? levelsUpTo(lowest(asked, connector.level, entitled)) : [];
  return {
    client,
    redirectUri: String(redirectUri),
    resource: String(resource),
    connector,
    account,
    levels,
    preselected: preselectedLevel(levels, connector.suggestedLevel ?? connector.level),
    requestsOfflineAccess: String(scope).split(' ').includes(OFFLINE_ACCESS),
  };
}

/** Checks the redirect URI again: the client may have changed since the authorization request. */
async function requireClient(
  { provider, store, preRegistered, redirectPolicy }: ConsentRequestOptions,
  id: string,
  redirectUri: string,
): Promise<ConsentRequest['client']> {
  const [client] = await Promise.all([
    provider.Client.find(id).catch(rethrowAsInvalidClient),
    requireAllowedClient(store, id),
  ]);
  if (!client) throw new HttpError(400, 'invalid_client', 'the app is no longer registered');
  if (!client.redirectUriAllowed(redirectUri) || isOwnOrigin(redirectPolicy, redirectUri)) {
    throw new HttpError(400, 'invalid_redirect_uri', 'the app no longer has this redirect URI');
  }
  const kind = preRegistered.has(id)
    ? 'pre-registered'
    : isIdentifiedByHost(id)
      ? 'metadata-document'
      : 'self-registered';
  return { id, name: client.clientName ?? id, kind };
}

/** Throws 403 `client_revoked` if an administrator revoked the client. */
export async function requireAllowedClient(store: Store, id: string): Promise<void> {
  if ((await revokedSince(store, id)) === undefined) return;
  throw new HttpError(403, 'client_revoked', 'an administrator has revoked this app');
}

/** The engine rejects a client that became invalid. Server faults are rethrown unchanged. */
function rethrowAsInvalidClient(error: unknown): never {
  if (error instanceof errors.OIDCProviderError && error.statusCode < 500)
    throw new HttpError(400, 'invalid_client', 'the app is no longer registered', {
      cause: error,
    });
  throw error;
}

async function requireConnector(
  { store, resourceUrl, now }: ConsentRequestOptions,
  resource: string,
): Promise<Connector> {
  const id = connectorIdOf(resourceUrl, resource);
  const connector = id === undefined ? undefined : await findConnector(store, id);
  if (connector && isUsable(connector, now())) return connector;
  throw new HttpError(400, 'invalid_target', 'this connect link was revoked or has expired');
}

async function requireAccount(
  { store }: ConsentRequestOptions,
  interaction: Interaction,
): Promise<Account> {
  const accountId = interaction.session?.accountId;
  const account = accountId === undefined ? undefined : await findAccount(store, accountId);
  if (account && account.forgottenAt === undefined) return account;
  throw new HttpError(400, 'expired', 'the sign-in session has expired');
}

/** The content on which the decision depends. If it has changed by the time of the approval, the page is shown again. */
export function displayedContent({
  client,
  redirectUri,
  connector,
  account,
  levels,
  requestsOfflineAccess,
}: ConsentRequest): PageContent {
  const text = JSON.stringify([
    client,
    redirectUri,
    connector.id,
    connector.name,
    account.id,
    account.name,
    account.email,
    account.emailVerified,
    levels,
    requestsOfflineAccess,
  ]);
  return { accountId: account.id, text };
}
