// Rules of workloads that were paused or ended.
import { findWorkloadRecord, updateWorkloadRecord } from '../../workloads/records.ts';
import { type Subject, timeOf } from './subject.ts';

/** Issued tokens end with their grants, whose ends are items of their own. */
export const workload: Subject = {
  idIn: ({ account }) => account,
  async plan({ services: { store } }, id, items) {
    const ended = items.find(({ event }) => event === 'workload_ended');
    const last = items.at(-1);
    const paused = last?.event === 'workload_paused' ? last : undefined;
    const record = await findWorkloadRecord(store, id);
    const isEnded = !ended || record.endedAt !== undefined;
    const isPaused = !paused || record.pausedAt !== undefined;
    if (isEnded && isPaused) return undefined;
    return async () =>
      void (await updateWorkloadRecord(store, id, (before) => ({
        ...before,
        ...(ended ? { endedAt: before.endedAt ?? timeOf(ended) } : {}),
        ...(paused ? { pausedAt: before.pausedAt ?? timeOf(paused) } : {}),
      })));
  },
};
