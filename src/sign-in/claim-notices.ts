import type { Logger } from 'pino';

/** Something about what a provider sends that its operator should know, without personal data. Clauses without a full stop. */
export type ClaimNotice = { what: string; remedy: string; reason?: string };

const logged = new Set<string>();

/** Logs each notice about an issuer once in each process, because every sign-in and recheck has it. */
export function warnOnce(logger: Logger, issuer: string, { what, ...details }: ClaimNotice): void {
  const key = `${issuer} ${what}`;
  if (logged.has(key)) return;
  logged.add(key);
  logger.warn({ what: issuer, ...details }, what);
}
