// Asks the identity provider about a person again, when an app refreshes its token (setting `recheck`).
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Account, accountLifetime, isGrantValid } from '../../people/account.ts';
import { withOwnEmail } from '../../people/domain-owner.ts';
import { updateAccount } from '../../people/accounts.ts';
import {
  isRecheckDue,
  isRecheckOverdue,
  needsSignIn,
  withAnswer,
  withLease,
  withoutAnswer,
  withoutToken,
  withRotatedToken,
} from '../../people/recheck.ts';
import type { AuditServices } from '../../audit/audit.ts';
import type { EnginePayload } from '../../connections/grant-record.ts';
import { endAfterRefusal, type TokenUse } from '../../connections/provider-refusal.ts';
import { rootMessage } from '../../error-causes.ts';
import { warnOnce } from '../../sign-in/claim-notices.ts';
import type { IdentityProvider, IdentityProviders } from '../../sign-in/provider.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Settings } from '../../settings/settings.ts';
import { isSameIssuer } from '../../settings/value-types.ts';
import { StoreUnavailable } from '../../store/store.ts';
import { whenOverdue } from '../../overdue.ts';
import { invalidGrant, temporarilyUnavailable } from './errors.ts';
import type { TokenPolicy } from './resource-indicators.ts';

/** A refresh waits this long for the provider. The recheck goes on afterwards, because its response may have the only valid token. */
const MAX_WAIT_MS = 2000;
/** At a stop. */
const MAX_CLOSE_MS = 5000;
const LOG_INTERVAL_SECONDS = 60;

export type RecheckServices = Omit<AuditServices, 'metrics'> & {
  logger: Logger;
  metrics: Pick<Metrics, 'auditEvent' | 'recheck'>;
};

export type Rechecks = {
  /**
   * Rechecks the person behind a refresh token if that is due. Rejects with `invalid_grant` if the person must sign in again, and with 503 if the
   * provider has been silent for too long. Does not reject if the provider ended the person: the account then refuses the grant.
   */
  recheckPerson: (granted: EnginePayload) => Promise<void>;
  /** Resolves when no recheck is in progress, after a few seconds at the latest. */
  close: () => Promise<void>;
};

export function rechecks(
  settings: Settings,
  services: RecheckServices,
  {
    identityProviders,
    policy,
  }: {
    identityProviders: IdentityProviders;
    policy: Pick<TokenPolicy, 'readAccount' | 'refreshAccount'>;
  },
): Rechecks {
  const { now } = services;
  const active = new Map<string, Promise<void>>();
  const ask = recheckOnce(settings, services);
  const askOnce = (provider: RecheckingProvider, id: string): Promise<void> => {
    const running = active.get(id) ?? ask(provider, id).finally(() => active.delete(id));
    active.set(id, running);
    return running;
  };
  return {
    async recheckPerson({ accountId, iat }) {
      const id = String(accountId);
      const known = await policy.readAccount(id);
      const provider = known && findProvider(identityProviders, known);
      if (!provider || !isRecheckDue(known, provider.recheckInterval, now())) return;
      if (mayAsk(known, provider, now())) await atMost(MAX_WAIT_MS, askOnce(provider, id));
      // Another process may have asked, or the person may have signed in.
      const account = await policy.refreshAccount(id);
      if (!account || !isGrantValid(account, Number(iat))) return;
      if (needsSignIn(account, provider.recheckInterval, now()))
        throw invalidGrant('the account must be checked: sign in again', 'sign_in_again');
      if (isRecheckOverdue(account, provider.recheckInterval, now()))
        throw Object.assign(
          temporarilyUnavailable(new Error('the identity provider has not responded for too long')),
          { reason: 'identity_provider_unavailable' },
        );
    },
    close: () => atMost(MAX_CLOSE_MS, Promise.all(active.values())),
  };
}

type RecheckingProvider = IdentityProvider & { recheckInterval: number };

function findProvider(
  providers: IdentityProviders,
  { issuer, providerIssuer = issuer }: Account,
): RecheckingProvider | undefined {
  return providers.find(
    (provider): provider is RecheckingProvider =>
      provider.recheckInterval !== undefined && isSameIssuer(provider.issuer, providerIssuer),
  );
}

/** Avoids writes while another call asks, or has just failed. */
function mayAsk(account: Account, { recheckInterval }: RecheckingProvider, now: number): boolean {
  return withLease(account, '', recheckInterval, now) !== undefined;
}

/** Returns a function that never rejects. It asks only if this call acquires the lease in the account record. */
function recheckOnce(settings: Settings, services: RecheckServices) {
  const { store, logger, metrics, now } = services;
  const ttl = accountLifetime(settings);
  const update = (id: string, next: (account: Account) => Account | undefined) =>
    updateAccount(store, id, ttl, next);
  const warn = warnSometimes(logger, now);

  async function handleEnd(id: string, use: TokenUse): Promise<void> {
    const hasEnded = await endAfterRefusal(settings, services, id, use, { endsPerson: true });
    if (hasEnded !== undefined) metrics.recheck(hasEnded ? 'ended' : 'sign_in_again');
  }

  async function askWith(
    provider: RecheckingProvider,
    account: Account & { recheck: { token: string } },
    { by, wasInterrupted }: { by: string; wasInterrupted: boolean },
  ): Promise<void> {
    const { id, recheck } = account;
    let { token } = recheck;
    const answer = await provider.recheck({
      token,
      person: account,
      async keep(successor) {
        await update(id, (current) => withRotatedToken(current, token, successor));
        token = successor;
      },
    });
    if (answer === 'ended') return handleEnd(id, { token, by, wasInterrupted });
    if (answer === 'sign-in') await update(id, (current) => withoutToken(current, token));
    else {
      for (const notice of answer.notices ?? []) warnOnce(logger, provider.issuer, notice);
      const { identity: asserted } = answer;
      const identity = withOwnEmail(settings.identityProviders, asserted, asserted);
      await update(id, (current) => withAnswer(current, by, identity, now()));
    }
    metrics.recheck(answer === 'sign-in' ? 'sign_in_again' : 'answered');
  }

  return async (provider: RecheckingProvider, id: string): Promise<void> => {
    const by = randomUUID();
    try {
      let wasInterrupted = false;
      const leased = await update(id, (account) => {
        wasInterrupted = account.recheck?.asking !== undefined;
        return withLease(account, by, provider.recheckInterval, now());
      });
      if (!leased?.first || !hasToken(leased.account)) return;
      await askWith(provider, leased.account, { by, wasInterrupted });
    } catch (error) {
      // The refresh reads the store too, and reports this.
      if (error instanceof StoreUnavailable) return;
      metrics.recheck('failed');
      warn(provider.issuer, error);
      // If this fails too, the lease expires.
      await update(id, (account) => withoutAnswer(account, by, now())).catch(() => undefined);
    }
  };
}

function hasToken(account: Account): account is Account & { recheck: { token: string } } {
  return account.recheck?.token !== undefined;
}

/** Logs at most one warning a minute for each provider. Errors of a recheck contain no tokens. */
function warnSometimes(logger: Logger, now: () => number) {
  const last = new Map<string, number>();
  return (issuer: string, error: unknown): void => {
    if (now() - (last.get(issuer) ?? -Infinity) < LOG_INTERVAL_SECONDS) return;
    last.set(issuer, now());
    logger.warn(
      { what: issuer, reason: rootMessage(error) },
      'the identity provider sent no valid response about a person',
    );
  };
}

async function atMost(milliseconds: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = whenOverdue(resolve, milliseconds);
  await Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
