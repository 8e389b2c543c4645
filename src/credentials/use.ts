// The credential that a call of a person gets: read, renewed before it expires, and after the upstream refused it.
import { recordAudit } from '../audit/audit.ts';
import type { Services } from '../services.ts';
import type { CredentialSettings } from '../settings/credentials.ts';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { cachedReader } from '../store/cached-reader.ts';
import {
  type Credential,
  credentialId,
  credentialIdParts,
  isDue,
  isExpired,
  isFor,
  isRenewable,
  type ServiceClient,
  withWanted,
} from './credential.ts';
import { CREDENTIALS_CHANNEL, findCredential, updateCredential } from './credentials.ts';
import { recordCredentialEnd } from './end.ts';
import { openExchange } from './exchange.ts';
import { OPERATOR } from './operator.ts';
import { refreshCredential, type Refreshed } from './refresh.ts';
import { revokeAtService } from './revocation.ts';
import {
  forgetRegisteredClient,
  isClientRefused,
  isRegisteredClient,
  secretFor,
  trustedHostsOf,
} from './service.ts';

/** What a request to the upstream carries. `epoch` changes when the person connects another account. */
export type CredentialInUse = {
  header: { name: string; value: string };
  token: string;
  epoch: string;
};

/**
 * `missing`: the person must connect; `isScope`: and allow more. `unavailable`: the service cannot be used now; `not_set_up`: until an operator changes something;
 * `other_provider`: not with the account with which the person signs in.
 */
export type CredentialProblem =
  | { missing: true; isScope?: true }
  | { unavailable: 'try_again' | 'not_set_up' | 'other_provider' };

/** As stored. An expired token may be renewed with the next call. */
export type StoredCredential = { epoch: string; isExpired: boolean };

export type PersonCredentials = {
  of(account: string): Promise<CredentialInUse | CredentialProblem>;
  /** Renews nothing. */
  stored(account: string): Promise<StoredCredential | undefined>;
  /** Calls the listener when the person's credential changes, until the returned function is called. */
  onChange(account: string, listener: () => void): () => void;
  /**
   * After the upstream answered that the scopes are insufficient. `missing` is what it named, and `allowed` what the caller's level may have.
   * Returns whether the person can give more, and is asked for it.
   */
  lacks(
    account: string,
    scopes: { missing: readonly string[] | undefined; allowed: readonly string[] },
  ): Promise<boolean>;
  /** After the upstream answered 401 to `token`. */
  renewed(account: string, token: string): Promise<CredentialInUse | CredentialProblem>;
};

type Owner = Pick<Credential, 'account' | 'upstream'>;

type UseServices = Pick<Services, 'store' | 'now' | 'logger' | 'keep'> &
  Parameters<typeof recordAudit>[0];

/** As for the records that authenticate a call (gateway/record-cache.ts). */
const FRESHNESS = { freshFor: 9, staleIfErrorFor: 45 };

export async function openPersonCredentials(
  settings: Settings,
  services: UseServices,
  upstream: Upstream & { credential: CredentialSettings },
): Promise<PersonCredentials> {
  const { now } = services;
  const records = await services.keep('credentials', async ({ store }) => {
    const reader = cachedReader(
      async (id: string) => {
        const owner = credentialIdParts(id);
        return owner && findCredential(store, owner);
      },
      { ...FRESHNESS, now },
    );
    const listeners = new Set<(id: string) => void>();
    await store.subscribe(CREDENTIALS_CHANNEL, (id) => {
      reader.drop(id);
      for (const listener of listeners) listener(id);
    });
    return { ...reader, listeners };
  });
  const { credential: kind } = upstream;
  const network = { trustedHosts: trustedHostsOf(upstream), forwardProxy: settings.forwardProxy };
  const exchange =
    kind.kind === 'exchange'
      ? openExchange(settings, services, { ...upstream, credential: kind })
      : undefined;
  const renewing = new Map<string, Promise<Refreshed>>();

  const use = ({ token, epoch }: Credential): CredentialInUse => ({
    header: { name: kind.header.name, value: kind.header.prefix + token },
    token,
    epoch,
  });

  const isCurrent = (known: Credential | undefined): known is Credential =>
    known !== undefined && (exchange ? exchange.isCurrent(known) : isFor(known, upstream));

  const isRegistered = (service: ServiceClient) =>
    kind.kind === 'oauth' && isRegisteredClient(settings, kind, service);

  const renewAndRecord = async (
    owner: Owner,
    known: Credential | undefined,
  ): Promise<Refreshed> => {
    const revoke = (tokens: Credential) => revokeAtService(settings, services, tokens);
    const secretOf = (service: ServiceClient) => secretFor(settings, upstream, service);
    const by = { store: services.store, now, network, secretOf, revoke };
    const refreshed = await (exchange
      ? exchange.exchange(owner.account, known?.token)
      : refreshCredential(by, owner, known?.token ?? ''));
    if ('ended' in refreshed)
      await recordCredentialEnd(services, refreshed.ended, 'refused_by_service');
    const code = 'failed' in refreshed ? refreshed.failed.code : undefined;
    const service = known?.service;
    if (code === undefined || !isClientRefused(code) || !service || !isRegistered(service))
      return refreshed;
    // The service has forgotten the client. The person needs another one, which is registered when the account is connected again.
    await recordFailure(services, owner, code);
    await forgetRegisteredClient(services.store, upstream.id, service.clientId);
    return { ask: true };
  };

  /** Calls of this process share one refresh. */
  const renew = (owner: Owner, known: Credential | undefined): Promise<Refreshed> => {
    const key = `${credentialId(owner)} ${known?.token ?? ''}`;
    const running = renewing.get(key);
    if (running) return running;
    const refresh = renewAndRecord(owner, known).finally(() => renewing.delete(key));
    renewing.set(key, refresh);
    return refresh;
  };

  const outcome = async (
    refreshed: Refreshed,
    owner: Owner,
  ): Promise<CredentialInUse | CredentialProblem> => {
    if ('credential' in refreshed) {
      records.drop(credentialId(owner));
      const { credential } = refreshed;
      return isCurrent(credential) ? use(credential) : { missing: true };
    }
    if ('ended' in refreshed) records.drop(credentialId(owner));
    if ('otherProvider' in refreshed) return { unavailable: 'other_provider' };
    if ('failed' in refreshed) {
      const { code } = refreshed.failed;
      await recordFailure(services, owner, code ?? 'no_answer');
      return { unavailable: isOperatorFault(kind.kind, code) ? 'not_set_up' : 'try_again' };
    }
    return { missing: true };
  };

  const ownerOf = (account: string): Owner => ({ upstream: upstream.id, account });

  return {
    async of(account) {
      const owner = ownerOf(account);
      const known = await records.read(credentialId(owner));
      if (!isCurrent(known))
        return exchange ? outcome(await renew(owner, undefined), owner) : { missing: true };
      if (!isDue(known, now())) {
        const isDead = isExpired(known, now()) && !isRenewable(known);
        return isDead ? { missing: true } : use(known);
      }
      const refreshed = await renew(owner, known);
      const isEarly = ('failed' in refreshed || 'ask' in refreshed) && !isExpired(known, now());
      if (!isEarly) return outcome(refreshed, owner);
      // A refresh that fails early withholds no token that is still valid, unless the person disconnected meanwhile.
      if ('failed' in refreshed)
        await recordFailure(services, owner, refreshed.failed.code ?? 'no_answer');
      const current = await records.refresh(credentialId(owner));
      return current?.token === known.token ? use(current) : outcome(refreshed, owner);
    },
    async stored(account) {
      const known = await records.read(credentialId(ownerOf(account)));
      if (!isCurrent(known)) return undefined;
      return { epoch: known.epoch, isExpired: isExpired(known, now()) };
    },
    onChange(account, listener) {
      const id = credentialId({ upstream: upstream.id, account });
      const whenOwn = (changed: string) => {
        if (changed === id) listener();
      };
      records.listeners.add(whenOwn);
      return () => void records.listeners.delete(whenOwn);
    },
    async lacks(account, scopes) {
      let isAsked = false;
      await updateCredential(services.store, ownerOf(account), (current) => {
        const next = isCurrent(current) ? withWanted(current, scopes) : undefined;
        isAsked = next !== undefined;
        return next;
      });
      return isAsked;
    },
    async renewed(account, token) {
      const owner = ownerOf(account);
      const known = await records.refresh(credentialId(owner));
      if (!isCurrent(known)) return { missing: true };
      if (known.token !== token) return use(known);
      return isRenewable(known) ? outcome(await renew(owner, known), owner) : { missing: true };
    },
  };
}

/** The service refuses until an operator changes something. A token exchange sends nothing that the person chose. */
function isOperatorFault(kind: Credential['kind'], code: string | undefined): boolean {
  if (code === undefined) return false;
  if (kind === 'exchange') return !['temporarily_unavailable', 'server_error'].includes(code);
  return isClientRefused(code);
}

const HOUR_SECONDS = 3600;

/** Once an hour for the same. */
export async function recordFailure(
  services: Parameters<typeof recordAudit>[0] & Pick<Services, 'store' | 'logger'>,
  { upstream, account }: Owner,
  reason: string,
): Promise<void> {
  const key = `credential-failed:${upstream} ${account} ${reason}`;
  const isFirst = await services.store.add(key, true, HOUR_SECONDS).catch(() => false);
  if (!isFirst) return;
  services.logger.warn({ what: upstream, reason }, "a person's credential could not be used");
  await recordAudit(services, {
    event: 'credential_failed',
    ...(account === OPERATOR ? {} : { account }),
    upstream,
    arguments: { cause: reason },
    outcome: 'failed',
  }).catch(() => undefined);
}
