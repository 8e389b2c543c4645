// What happened to each subject after the backup, as far as a replay needs it.
import type { AuditItem } from '../audit/audit.ts';
import { type SubjectName, SUBJECTS, subjectsOf } from './decisions.ts';

/** `isOwn`: of the log of the store, after the backup. */
export type Happened = { item: AuditItem; isOwn: boolean };

/** Oldest first. */
export type History = { name: SubjectName; id: string; happened: Happened[] };

/** Somebody who connected after the backup: the restored store does not have the connection. */
export type Connected = Pick<AuditItem, 'account' | 'clientId' | 'connector' | 'grantId'>;

export type Histories = {
  add(item: AuditItem, options: { isOwn: boolean }): void;
  /** In the order of `SUBJECTS`. */
  all(): History[];
  /** Those whose connections did not end later. */
  connected(): Connected[];
};

export function collectHistories(): Histories {
  const histories = new Map<string, History>();
  const connected = new Map<string, Connected>();
  return {
    add(item, { isOwn }) {
      const { account, clientId, connector, grantId } = item;
      if (item.event === 'consent_approved' && grantId !== undefined && !isOwn)
        connected.set(grantId, { account, clientId, connector, grantId });
      for (const { name, id } of subjectsOf(item)) {
        if (name === 'connectionEnd') connected.delete(id);
        const key = `${name} ${id}`;
        const history = histories.get(key) ?? { name, id, happened: [] };
        history.happened.push({ item, isOwn });
        histories.set(key, history);
      }
    },
    all() {
      const order = Object.keys(SUBJECTS);
      const place = ({ name }: History) => order.indexOf(name);
      return [...histories.values()].toSorted((one, other) => place(one) - place(other));
    },
    connected: () => [...connected.values()],
  };
}
