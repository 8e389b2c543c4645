import { recordChange } from '../audit/recorded-change.ts';
import {
  findWorkloadRecord,
  updateWorkloadRecord,
  type WorkloadRecord,
} from '../workloads/records.ts';
import { endConnection } from '../connections/connections.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { writeRate } from '../settings/limits.ts';
import { findWorkload, type WorkloadRule, workloadSubject } from '../settings/workloads.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { isoTime, represent } from './represent.ts';
import { type Examination, examineWorkload } from '../workloads/examine.ts';
import { WorkloadRefused } from '../workloads/validation.ts';
import {
  type Workload,
  type workloadOperations,
  workloadSchema,
  type WorkloadTest,
} from './resources/workload.ts';

export const workloadHandlers: Handlers<keyof typeof workloadOperations> = {
  async listWorkloads(management) {
    const { trustedIssuers } = management.settings.authorization;
    const ids = trustedIssuers.flatMap(({ id, workloads }) =>
      workloads.map((rule) => `${id}:${rule.id}`),
    );
    return { items: await Promise.all(ids.map((id) => show(management, id))) };
  },

  pauseWorkload: (management, { body: { id } }) =>
    change(management, id, 'workload_paused', (record, at) =>
      record.pausedAt === undefined ? { ...record, pausedAt: at } : record,
    ),

  resumeWorkload: (management, { body: { id } }) =>
    change(management, id, 'workload_resumed', ({ pausedAt: _since, ...record }) => record),

  endWorkload: (management, { body: { id } }) =>
    change(management, id, 'workload_ended', (record, at) =>
      record.endedAt === undefined ? { ...record, endedAt: at } : record,
    ),

  async testWorkload({ settings, services: { store, now } }, { body: { assertion, resource } }) {
    const examined = await examineWorkload(assertion, {
      settings,
      store,
      now,
      resource,
    }).catch((error: unknown) => {
      if (!(error instanceof WorkloadRefused)) throw error;
      return { isAccepted: false, checks: [{ name: 'JWT', error: error.message }], rules: [] };
    });
    return testResult(examined);
  },
};

const MAX_SHOWN_LENGTH = 300;

function testResult({ isAccepted, issuer, checks, rules }: Examination): WorkloadTest {
  return {
    accepted: isAccepted,
    issuer: issuer?.id,
    checks: checks.map((check) => ({ ...check, value: shownValue(check.value) })),
    rules: rules.map(({ rule: { id, level }, unmatched, link, error }) => ({
      id: `${issuer?.id}:${id}`,
      link,
      level,
      unmatched: unmatched.map((claim) => ({ ...claim, value: shownValue(claim.value) })),
      error,
    })),
  };
}

function shownValue(value: unknown): string | undefined {
  return (JSON.stringify(value) as string | undefined)?.slice(0, MAX_SHOWN_LENGTH);
}

const subjectOf = (id: string) =>
  workloadSubject(id.slice(0, id.lastIndexOf(':')), id.slice(id.lastIndexOf(':') + 1));

/** Tokens of a rule that no longer gives any end at once. Records the event for the call that changed the rule. */
async function change(
  management: ManagementContext,
  id: string,
  event: 'workload_paused' | 'workload_resumed' | 'workload_ended',
  next: (record: WorkloadRecord, at: number) => WorkloadRecord,
): Promise<Workload> {
  const { services, by } = management;
  const { store, now } = services;
  const subject = subjectOf(id);
  await show(management, id);
  const itemOf = ({ grantId }: WorkloadRecord) => ({
    event,
    account: subject,
    clientId: subject,
    by,
    ...(grantId === undefined ? {} : { grantId }),
    arguments: { name: id },
  });
  const update = () =>
    updateWorkloadRecord(store, subject, (record) => {
      if (record.endedAt !== undefined && event !== 'workload_ended')
        throw new HttpError(409, 'workload_ended', 'this rule was ended: add one with another id');
      const changed = next(record, Math.floor(now()));
      return Object.keys(changed).length === Object.keys(record).length ? record : changed;
    });
  const { after } = await recordChange(services, itemOf(await findWorkloadRecord(store, subject)), {
    make: update,
    itemOf: (made) => (made.after === made.before ? undefined : itemOf(made.after)),
  });
  const { grantId } = after;
  const givesTokens = after.pausedAt === undefined && after.endedAt === undefined;
  if (grantId !== undefined && !givesTokens)
    await endConnection(services, { id: grantId, state: 'active' }, 'revoked_by_administrator', by);
  return show(management, id);
}

/** Throws 404 if there is no such rule in the settings, and nothing is known of it. */
async function show(management: ManagementContext, id: string): Promise<Workload> {
  const { settings, services } = management;
  const subject = subjectOf(id);
  const found = findWorkload(settings.authorization.trustedIssuers, subject);
  const record = await findWorkloadRecord(services.store, subject);
  const isKnown = record.endedAt ?? record.pausedAt ?? record.grantId;
  if (!found && isKnown === undefined)
    throw notFound('there is no rule of a workload with this id');
  const { rule, issuer } = found ?? {};
  return represent(workloadSchema, {
    ...rule,
    id,
    issuer: issuer?.issuer ?? id.slice(0, id.lastIndexOf(':')),
    state: stateOf(rule, record, services.now()),
    calls: rule?.calls && writeRate(rule.calls),
    expiresAt: rule?.expires,
    grant: record.grantId,
    subjects: record.subjects.map(({ subject: name, at }) => ({
      subject: name,
      time: isoTime(at),
    })),
  });
}

function stateOf(
  rule: WorkloadRule | undefined,
  { endedAt, pausedAt }: WorkloadRecord,
  now: number,
): Workload['state'] {
  if (endedAt !== undefined) return 'ended';
  if (!rule) return 'gone';
  if ((rule.expires ?? Infinity) <= now) return 'expired';
  return pausedAt === undefined ? 'active' : 'paused';
}
