const PREFIX = 'machine:';

/** The account of a machine's grant, and the `sub` of its tokens. Cannot equal other ids: those of people have no colon. */
export function machineSubject(clientId: string): string {
  return PREFIX + clientId;
}

export function isMachineSubject(accountId: string): boolean {
  return accountId.startsWith(PREFIX);
}
