import {
  type Attempt as Stored,
  endOf,
  findAttemptNamed,
  listAttempts,
} from '../connections/attempts.ts';
import { notFound } from '../http/errors.ts';
import { includesRole } from '../settings/management-roles.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { represent } from './represent.ts';
import {
  type Attempt,
  attemptExplanation,
  type attemptOperations,
  attemptSchema,
} from './resources/attempt.ts';
import { scanPage, searchFor } from './search.ts';

export const attemptHandlers: Handlers<keyof typeof attemptOperations> = {
  async listAttempts(management, { query: { limit, after, since, end, q, ...owner } }) {
    const { store, now } = management.services;
    const { account, client } = owner;
    const isWanted = (attempt: Stored) =>
      (since === undefined || attempt.time >= since) &&
      (account === undefined || attempt.account === account) &&
      (client === undefined || attempt.client === client) &&
      (end === undefined || endOf(attempt, now())?.end === end);
    const named =
      q === undefined || after !== undefined ? undefined : await findAttemptNamed(store, q.trim());
    if (named) return { items: isWanted(named) ? [resource(management, named)] : [] };
    const found = searchFor(q);
    const { items, next } = await scanPage(
      until(since, listAttempts(store, { ...owner, after })),
      (attempt) =>
        isWanted(attempt) &&
        found([
          attempt.reference,
          attempt.client,
          attempt.clientName,
          attempt.account,
          endOf(attempt, now())?.reason,
        ]),
      { limit },
    );
    return { items: items.map((each) => resource(management, each)), next };
  },

  async showAttempt(management, { id }) {
    const attempt = await findAttemptNamed(management.services.store, id);
    if (!attempt)
      throw notFound('there is no attempt with this reference, or it is older than 30 days');
    return resource(management, attempt);
  },
};

/** Ends with the first attempt that began earlier. */
async function* until(
  since: number | undefined,
  attempts: ReturnType<typeof listAttempts>,
): ReturnType<typeof listAttempts> {
  for await (const each of attempts) {
    if (since !== undefined && each.item && each.item.time < since) return;
    yield each;
  }
}

/** Addresses are for those who act on them. */
function resource({ role, services }: ManagementContext, attempt: Stored): Attempt {
  const { end, reason } = endOf(attempt, services.now()) ?? {};
  return represent(attemptSchema, {
    ...attempt,
    grant: attempt.grantId,
    address: includesRole(role, 'operator') ? attempt.address : undefined,
    end,
    reason,
    explanation: end && attemptExplanation(end, reason),
  });
}
