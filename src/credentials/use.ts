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
} from './credential.ts';
import { CREDENTIALS_CHANNEL, findCredential } from './credentials.ts';
import { recordCredentialEnd } from './end.ts';
import { refreshCredential, type Refreshed } from './refresh.ts';
import { trustedHostsOf } from './service.ts';

/** What a request to the upstream carries. `epoch` changes when the person connects another account. */
export type CredentialInUse = {
  header: { name: string; value: string };
  token: string;
  epoch: string;
};

/** `missing`: the person must connect. `unavailable`: the service cannot be used now; `not_set_up`: until an operator changes something. */
export type CredentialProblem = { missing: true } | { unavailable: 'try_again' | 'not_set_up' };

export type PersonCredentials = {
  of(account: string): Promise<CredentialInUse | CredentialProblem>;
  /** Calls the listener when the person's credential changes, until the returned function is called. */
  onChange(account: string, listener: () => void): () => void;
  /** After the upstream answered 401 to `token`. */
  renewed(account: string, token: string): Promise<CredentialInUse | CredentialProblem>;
};

type UseServices = Pick<Services, 'store' | 'now' | 'logger' | 'keep'> &
  Parameters<typeof recordAudit>[0];

/** As for the records that authenticate a call (gateway/record-cache.ts). */
const FRESHNESS = { freshFor: 9, staleIfErrorFor: 45 };

export async function openPersonCredentials(
  settings: Pick<Settings, 'forwardProxy'>,
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
  const secret = kind.kind === 'key' ? undefined : kind.clientSecret;
  const renewing = new Map<string, Promise<Refreshed>>();

  const use = ({ token, epoch }: Credential): CredentialInUse => ({
    header: { name: kind.header.name, value: kind.header.prefix + token },
    token,
    epoch,
  });

  const renewAndRecord = async (credential: Credential): Promise<Refreshed> => {
    const by = { store: services.store, now, network, secret };
    const refreshed = await refreshCredential(by, credential, credential.token);
    if ('ended' in refreshed)
      await recordCredentialEnd(services, refreshed.ended, 'refused_by_service');
    return refreshed;
  };

  /** Calls of this process share one refresh. */
  const renew = (credential: Credential): Promise<Refreshed> => {
    const key = `${credentialId(credential)} ${credential.token}`;
    const running = renewing.get(key);
    if (running) return running;
    const refresh = renewAndRecord(credential).finally(() => renewing.delete(key));
    renewing.set(key, refresh);
    return refresh;
  };

  const outcome = async (refreshed: Refreshed, known: Credential) => {
    if ('credential' in refreshed) {
      records.drop(credentialId(known));
      return use(refreshed.credential);
    }
    if ('ended' in refreshed) records.drop(credentialId(known));
    if ('failed' in refreshed) {
      const { code } = refreshed.failed;
      await recordFailure(services, known, code ?? 'no_answer');
      return { unavailable: isOperatorFault(code) ? 'not_set_up' : 'try_again' } as const;
    }
    return { missing: true } as const;
  };

  return {
    async of(account) {
      const owner = { upstream: upstream.id, account };
      const known = await records.read(credentialId(owner));
      if (known?.kind !== kind.kind) return { missing: true };
      if (!isDue(known, now())) {
        const isDead = isExpired(known, now()) && known.refreshToken === undefined;
        return isDead ? { missing: true } : use(known);
      }
      const refreshed = await renew(known);
      const isEarly = ('failed' in refreshed || 'ask' in refreshed) && !isExpired(known, now());
      if (!isEarly) return outcome(refreshed, known);
      // A refresh that fails early withholds no token that is still valid, unless the person disconnected meanwhile.
      if ('failed' in refreshed)
        await recordFailure(services, known, refreshed.failed.code ?? 'no_answer');
      const current = await records.refresh(credentialId(owner));
      return current?.token === known.token ? use(current) : outcome(refreshed, known);
    },
    onChange(account, listener) {
      const id = credentialId({ upstream: upstream.id, account });
      const whenOwn = (changed: string) => {
        if (changed === id) listener();
      };
      records.listeners.add(whenOwn);
      return () => void records.listeners.delete(whenOwn);
    },
    async renewed(account, token) {
      const owner = { upstream: upstream.id, account };
      const known = await records.refresh(credentialId(owner));
      if (known?.kind !== kind.kind) return { missing: true };
      if (known.token !== token) return use(known);
      if (known.refreshToken === undefined) return { missing: true };
      return outcome(await renew(known), known);
    },
  };
}

function isOperatorFault(code: string | undefined): boolean {
  return code !== undefined && ['invalid_client', 'unauthorized_client'].includes(code);
}

const HOUR_SECONDS = 3600;

/** Once an hour for the same. */
async function recordFailure(
  services: Parameters<typeof recordAudit>[0] & Pick<Services, 'store' | 'logger'>,
  { upstream, account }: Credential,
  reason: string,
): Promise<void> {
  const key = `credential-failed:${upstream} ${account} ${reason}`;
  const isFirst = await services.store.add(key, true, HOUR_SECONDS).catch(() => false);
  if (!isFirst) return;
  services.logger.warn({ what: upstream, reason }, "a person's credential could not be refreshed");
  await recordAudit(services, {
    event: 'credential_failed',
    account,
    upstream,
    arguments: { cause: reason },
    outcome: 'failed',
  }).catch(() => undefined);
}
