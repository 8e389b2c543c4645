// Exchanges the person's token at the sign-in provider for one that the upstream takes (RFC 8693; on-behalf-of of Microsoft Entra ID). The
// person's token is stored in the account, as for rechecks, and is used by one call at a time.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import * as openid from 'openid-client';
import { recordAudit } from '../audit/audit.ts';
import { endAfterRefusal } from '../connections/provider-refusal.ts';
import { type Account, accountLifetime } from '../people/account.ts';
import { findAccount, updateAccount } from '../people/accounts.ts';
import { withoutLease, withoutToken, withRotatedToken, withUseLease } from '../people/recheck.ts';
import type { Services } from '../services.ts';
import { type ExchangeCredentialSettings, exchangeProvider } from '../settings/credentials.ts';
import type { IdentityProvider } from '../settings/identity-provider.ts';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import type { Store } from '../store/store.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { clientAuthenticationMethod } from '../sign-in/discovered-choices.ts';
import { type Discovery, openDiscovery } from '../sign-in/discovery.ts';
import { identityProviderSettings } from '../sign-in/provider.ts';
import { refreshTokensOf, TokenRequestFailed } from '../sign-in/refresh.ts';
import {
  type Credential,
  credentialId,
  isExpired,
  isFor,
  serverOf,
  type ServiceClient,
  type Tokens,
} from './credential.ts';
import { deleteCredential, findCredential, saveCredential } from './credentials.ts';
import { errorCodeOf, scopesIn, tokensIn } from './obtain.ts';
import { isTemporary, keepTrying, type Refreshed, wantsInteraction } from './refresh.ts';
import { revokeAtService } from './revocation.ts';
import { openidConfiguration, secretFor } from './service.ts';
import { membersOfAnswer } from './service-fetch.ts';

export type ExchangeUpstream = Upstream & { credential: ExchangeCredentialSettings };

type ExchangeServices = Pick<Services, 'store' | 'now' | 'logger'> &
  Parameters<typeof recordAudit>[0];

export type Exchange = {
  /** Whether the credential was issued for what the settings say now. */
  isCurrent(credential: Credential): boolean;
  /** Exchanges, unless the store has another token than `used` by then. Waits for another call that does. */
  exchange(account: string, used: string | undefined): Promise<Refreshed>;
};

const POLL_MS = 50;
/** A call waits this long for another one. */
const MAX_WAIT_MS = 20_000;

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';
const GRANT_TYPES = {
  exchange: 'urn:ietf:params:oauth:grant-type:token-exchange',
  'on-behalf-of': 'urn:ietf:params:oauth:grant-type:jwt-bearer',
};

/** What the provider wants of the person before it exchanges, for the next authentication request (Microsoft Entra ID). */
const claimsKey = (owner: Owner) => `credential-claims:${credentialId(owner)}`;
const CLAIMS_SECONDS = 86_400;

type Owner = Pick<Credential, 'account' | 'upstream'>;

export async function wantedClaims(store: Store, owner: Owner): Promise<string | undefined> {
  return (await store.get<string>(claimsKey(owner)))?.value;
}

export async function forgetWantedClaims(store: Store, owner: Owner): Promise<void> {
  await store.delete(claimsKey(owner));
}

export function openExchange(
  settings: Settings,
  services: ExchangeServices,
  upstream: ExchangeUpstream,
): Exchange {
  const { store, now } = services;
  const { credential: wanted } = upstream;
  const provider = exchangeProvider(identityProviderSettings(settings), wanted);
  if (!provider) throw new Error('the settings have no identity provider for the exchange');
  const discovery = openDiscovery(provider);
  const purpose = purposeOf(wanted, provider.issuer);
  const update = (id: string, next: (account: Account) => Account | undefined) =>
    updateAccount(store, id, accountLifetime(settings), next);

  const isCurrent = (credential: Credential) =>
    isFor(credential, upstream) && credential.purpose === purpose;

  const newerThan = async (owner: Owner, used: string | undefined) => {
    const stored = await findCredential(store, owner);
    const isNewer =
      stored && isCurrent(stored) && stored.token !== used && !isExpired(stored, now());
    return isNewer ? stored : undefined;
  };

  /** Returns the person's token at the provider, or why there is none. */
  const subjectToken = async (account: Leased): Promise<string | Refreshed> => {
    const { by, wasInterrupted } = account;
    let { token } = account;
    const tokens = await refreshTokensOf(provider, discovery, {
      token,
      person: account.person,
      async keep(successor) {
        await update(account.id, (current) => withRotatedToken(current, token, successor));
        token = successor;
      },
    });
    if (tokens === 'ended') {
      const use = { token, by, wasInterrupted };
      const endsPerson = provider.recheck !== undefined;
      await endAfterRefusal(settings, services, account.id, use, { endsPerson });
    } else if (tokens === 'sign-in')
      await update(account.id, (current) => withoutToken(current, token));
    else return tokens.access_token;
    return endIfExpired({ account: account.id, upstream: upstream.id });
  };

  /** A token that is still valid may be used until then. */
  const endIfExpired = async (owner: Owner): Promise<Refreshed> => {
    const ended = await deleteCredential(store, owner, (current) => isExpired(current, now()));
    return ended ? { ended } : { ask: true };
  };

  const send = async (token: string): Promise<Tokens & { service: ServiceClient }> => {
    const { answer, service } = await sendExchange(settings, upstream, {
      provider,
      discovery,
      token,
    });
    const { refreshToken: _, ...tokens } = tokensIn(answer, now());
    const scopes = scopesIn(answer) ?? wanted.scope?.split(' ') ?? [];
    return { ...tokens, scopes, service };
  };

  const refused = async (owner: Owner, error: unknown): Promise<Refreshed> => {
    if (!(error instanceof openid.ResponseBodyError))
      return {
        failed: { code: error instanceof TokenRequestFailed ? error.code : undefined },
      };
    if (isTemporary(error)) return { failed: { code: undefined } };
    const { claims } = error.cause as { claims?: unknown };
    if (typeof claims === 'string') await store.set(claimsKey(owner), claims, CLAIMS_SECONDS);
    const code = errorCodeOf(error);
    // The person's token is fresh, so that a refusal of it is about the person.
    if (wantsInteraction(error) || code === 'invalid_grant') return { ask: true };
    return { failed: { code } };
  };

  const save = async (
    { id, by }: Leased,
    issued: Tokens & { service: ServiceClient },
  ): Promise<Refreshed> => {
    const owner = { account: id, upstream: upstream.id };
    const server = serverOf(upstream);
    const obtained = { ...issued, ...owner, kind: 'exchange', server, purpose } as const;
    // The person may have been disabled or forgotten meanwhile, which erased the lease.
    const isHeld = (await findAccount(store, id))?.recheck?.asking?.by === by;
    if (!isHeld) {
      await revokeAtService(settings, services, { ...obtained, epoch: '', connectedAt: now() });
      return { ask: true };
    }
    let credential: Credential | undefined;
    let isFirst = true;
    await saveCredential(store, owner, (before) => {
      isFirst = !before || !isCurrent(before);
      const { epoch, connectedAt } =
        before && !isFirst ? before : { epoch: randomUUID(), connectedAt: Math.floor(now()) };
      credential = { ...obtained, epoch, connectedAt };
      return credential;
    });
    await forgetWantedClaims(store, owner);
    if (!credential) return { ask: true };
    if (isFirst)
      await recordAudit(services, {
        event: 'credential_connected',
        ...owner,
        arguments: { scopes: credential.scopes },
        outcome: 'done',
      });
    return { credential };
  };

  /** Acquires the token of the person. Undefined while another call has it. */
  const lease = async (account: Account, by: string): Promise<Leased | undefined> => {
    if (!withUseLease(account, by, now())) return undefined;
    let wasInterrupted = false;
    const leased = await update(account.id, (current) => {
      wasInterrupted = current.recheck?.asking !== undefined;
      return withUseLease(current, by, now());
    });
    const token = leased?.account.recheck?.token;
    if (!leased?.first || token === undefined) return undefined;
    return { id: account.id, person: leased.account, token, by, wasInterrupted };
  };

  return {
    isCurrent,
    async exchange(id, used) {
      const owner = { account: id, upstream: upstream.id };
      const by = randomUUID();
      const started = performance.now();
      for (;;) {
        const account = await findAccount(store, id);
        if (!account || account.disabledAt !== undefined) return { ask: true };
        const { issuer, providerIssuer = issuer } = account;
        if (!isSameIssuer(provider.issuer, providerIssuer)) return { otherProvider: true };
        if (account.recheck?.token === undefined) return endIfExpired(owner);
        const leased = await lease(account, by);
        const newer = await newerThan(owner, used);
        if (leased)
          try {
            if (newer) return { credential: newer };
            const token = await subjectToken(leased);
            return typeof token === 'string' ? await save(leased, await send(token)) : token;
          } catch (error) {
            return await refused(owner, error);
          } finally {
            const release = () => update(id, (current) => withoutLease(current, by));
            await release().catch(() => void keepTrying(release).catch(() => undefined));
          }
        if (newer) return { credential: newer };
        if (performance.now() - started > MAX_WAIT_MS) return { failed: { code: undefined } };
        await delay(POLL_MS);
      }
    },
  };
}

/** The right to use the person's token at the provider. */
type Leased = { id: string; person: Account; token: string; by: string; wasInterrupted: boolean };

/** Sends the person's token to the provider. Rejects with a ResponseBodyError for a refusal. */
export async function sendExchange(
  settings: Pick<Settings, 'forwardProxy' | 'identityProviders' | 'secret'>,
  upstream: ExchangeUpstream,
  {
    provider,
    discovery,
    token,
  }: { provider: IdentityProvider; discovery: Discovery; token: string },
): Promise<{ answer: Record<string, unknown>; service: ServiceClient }> {
  const { credential: wanted } = upstream;
  const metadata = (await discovery.config()).serverMetadata();
  const method = clientAuthenticationMethod(provider, metadata);
  const basicOrPost = method === 'client_secret_post' ? 'post' : 'basic';
  const { token_endpoint: tokenEndpoint, revocation_endpoint: revocationEndpoint } = metadata;
  if (tokenEndpoint === undefined) throw new Error('the identity provider has no token endpoint');
  const { issuer } = provider;
  const client = { issuer, tokenEndpoint, clientId: wanted.clientId ?? provider.clientId };
  const secret = secretFor(settings, upstream, client);
  const service: ServiceClient = {
    ...client,
    authorizationEndpoint: metadata.authorization_endpoint ?? '',
    ...(revocationEndpoint === undefined ? {} : { revocationEndpoint }),
    auth: secret === undefined ? 'none' : basicOrPost,
    // The settings name the provider, which may be in a private network.
    trustedHosts: [issuer, tokenEndpoint, revocationEndpoint ?? tokenEndpoint].map(
      (url) => new URL(url).hostname,
    ),
  };
  const network = {
    trustedHosts: new Set(service.trustedHosts),
    forwardProxy: settings.forwardProxy,
  };
  let answer: Record<string, unknown> = {};
  const config = openidConfiguration(service, secret, network, async (response) => {
    answer = membersOfAnswer(await response.text()) ?? {};
  });
  const { grant_type: grantType = GRANT_TYPES[wanted.style], ...parameters } = parametersFor(
    wanted,
    token,
  );
  await openid.genericGrantRequest(config, grantType, parameters);
  return { answer, service };
}

function parametersFor(
  { style, audience, scope, resource, params }: ExchangeCredentialSettings,
  token: string,
): Record<string, string> {
  const subject: Record<string, string> =
    style === 'exchange'
      ? { subject_token: token, subject_token_type: ACCESS_TOKEN }
      : { assertion: token, requested_token_use: 'on_behalf_of' };
  return {
    ...subject,
    ...(audience === undefined ? {} : { audience }),
    ...(scope === undefined ? {} : { scope }),
    ...(resource === undefined ? {} : { resource }),
    ...params,
  };
}

function purposeOf(
  { style, audience, scope, resource, clientId, params }: ExchangeCredentialSettings,
  issuer: string,
): string {
  return JSON.stringify([issuer, style, audience, scope, resource, clientId, params]);
}
