import { isWorkloadSubject } from '../settings/workloads.ts';

const PREFIX = 'machine:';

/** The account of a machine's grant, and the `sub` of its tokens. Cannot equal other ids: those of people have no colon. */
export function machineSubject(clientId: string): string {
  return PREFIX + clientId;
}

/** Also true for a workload: both are programs without a person. */
export function isMachineSubject(accountId: string): boolean {
  return accountId.startsWith(PREFIX) || isWorkloadSubject(accountId);
}
