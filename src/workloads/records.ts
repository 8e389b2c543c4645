// What administrators decided about the rules of workloads, and who used them last. The rules are in the settings.
import { KEEP, type Store } from '../store/store.ts';

/** Times are seconds since the epoch. */
export type WorkloadRecord = {
  /** Tokens are refused until an administrator resumes it. */
  pausedAt?: number;
  /** The rule never matches again. */
  endedAt?: number;
  /** The grant of its tokens. */
  grantId?: string;
  /** Those whose JWTs matched last, the newest first. */
  subjects: { subject: string; at: number }[];
};

const NEW: WorkloadRecord = { subjects: [] };
const MAX_SUBJECTS = 10;
const USE_INTERVAL_SECONDS = 60;

/** `subject` is that of the tokens of the rule. */
export async function findWorkloadRecord(store: Store, subject: string): Promise<WorkloadRecord> {
  return (await store.get<WorkloadRecord>(subject))?.value ?? NEW;
}

/** Returns the record as it was and as it is: the same twice if nothing changed. */
export async function updateWorkloadRecord(
  store: Store,
  subject: string,
  next: (record: WorkloadRecord) => WorkloadRecord,
): Promise<{ before: WorkloadRecord; after: WorkloadRecord }> {
  let update = { before: NEW, after: NEW };
  await store.update<WorkloadRecord>(subject, (stored) => {
    const before = stored ?? NEW;
    const after = next(before);
    update = { before, after };
    return after === before ? KEEP : { value: after, ttl: Infinity };
  });
  return update;
}

/** Adds a use of the rule by the platform's subject, accurate to a minute. */
export function withSubject(record: WorkloadRecord, subject: string, at: number): WorkloadRecord {
  const [last] = record.subjects;
  if (last?.subject === subject && at - last.at < USE_INTERVAL_SECONDS) return record;
  const others = record.subjects.filter((each) => each.subject !== subject);
  const subjects = [{ subject, at: Math.floor(at) }, ...others].slice(0, MAX_SUBJECTS);
  return { ...record, subjects };
}
