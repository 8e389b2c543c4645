// What is stored about a person, as JSON Lines: the one member of each line says what it is. No line has a secret or a token.
import { exportAudit } from './audit-export.ts';
import type { accountHandlers } from './accounts.ts';
import { allItems } from './api/all-items.ts';
import { attemptHandlers } from './attempts.ts';
import { findVisit } from '../people/visits.ts';
import type { ManagementContext } from './context.ts';
import { credentialHandlers } from './credentials.ts';
import { grantHandlers } from './grants.ts';
import { isoTime } from './represent.ts';

/** Begins with the account, which has what is kept out, and ends with the items of the audit log, the oldest first. */
export async function* exportedAccount(
  management: ManagementContext,
  account: Awaited<ReturnType<typeof accountHandlers.showAccount>>,
): AsyncGenerator<string> {
  const line = (value: object) => `${JSON.stringify(value)}\n`;
  const about = { account: account.id };
  yield line({ account });
  const visit = await findVisit(management.services.store, account.id);
  if (visit) yield line({ accountPage: { lastSeenAt: isoTime(visit.seenAt) } });
  const page = ({ limit, ...after }: { limit: string; after?: string }) => ({
    query: { ...about, limit: Number(limit), ...after },
  });
  for await (const grant of allItems((next) => grantHandlers.listGrants(management, page(next))))
    yield line({ grant });
  for await (const credential of allItems((next) =>
    credentialHandlers.listCredentials(management, page(next)),
  ))
    yield line({ credential });
  for await (const attempt of allItems((next) =>
    attemptHandlers.listAttempts(management, page(next)),
  ))
    yield line({ attempt });
  yield* exportAudit(management, 'jsonl', about);
}
