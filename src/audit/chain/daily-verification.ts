// Verifies the last day of the log once a day, because a verifier that nobody runs finds nothing.
import type { Metrics } from '../../observability/metrics.ts';
import type { Store } from '../../store/store.ts';
import type { ChainServices } from './keep-chain.ts';
import { verifyStore } from './verify-store.ts';
import type { Verification } from './verifier.ts';

const LAST = 'audit-verification:last';
/** Of the process that verifies. */
const LOCK = 'audit-verification:lock';
const LOCK_SECONDS = 3600;
const DAY_SECONDS = 86_400;
const MAX_PROBLEMS = 100;

/** `at` is in seconds since the epoch. */
export type LastVerification = Pick<Verification, 'ok' | 'checkpoints' | 'problems'> & {
  at: number;
};

export async function lastVerification(store: Store): Promise<LastVerification | undefined> {
  return (await store.get<LastVerification>(LAST))?.value;
}

export type VerifyingServices = ChainServices & { metrics: Pick<Metrics, 'auditVerified'> };

const LOOK_SECONDS = 60;
/** After a failure. */
const RETRY_SECONDS = 5;

/** Returns a function that verifies if the last time is a day ago, in one of the processes, and tells the result in all of them. */
export function dailyVerification(): (services: VerifyingServices) => Promise<void> {
  let [lookedAt, pause] = [-Infinity, LOOK_SECONDS];
  return async function verifyIfDue(services) {
    const { store, now, metrics } = services;
    if (Math.abs(now() - lookedAt) < pause) return;
    const last = await lastVerification(store);
    [lookedAt, pause] = [now(), LOOK_SECONDS];
    if (last) metrics.auditVerified(last.ok);
    const isOver = !last || Math.abs(now() - last.at) >= DAY_SECONDS;
    if (!isOver) return;
    pause = RETRY_SECONDS;
    if (!(await store.add(LOCK, true, LOCK_SECONDS))) {
      // The result of the other process is to be told soon.
      lookedAt = -Infinity;
      return;
    }
    try {
      const { ok } = await verifyDay(services);
      metrics.auditVerified(ok);
      pause = LOOK_SECONDS;
    } finally {
      await store.delete(LOCK);
    }
  };
}

async function verifyDay({ store, now, logger }: VerifyingServices): Promise<LastVerification> {
  const at = now();
  const { ok, checkpoints, problems } = await verifyStore(store, {
    since: at - DAY_SECONDS,
    now: at,
  });
  const verified = { at, ok, checkpoints, problems: problems.slice(0, MAX_PROBLEMS) };
  await store.set(LAST, verified, Infinity);
  if (!ok) logger.error(verified, 'the audit log is not as it was written');
  return verified;
}
