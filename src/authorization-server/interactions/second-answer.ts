// A form that is sent after its interaction was answered: the last decision takes effect, and nothing more is granted than before.
import type Koa from 'koa';
import type { AuditServices } from '../../audit/audit.ts';
import { endConnection, narrowConnection } from '../../connections/connections.ts';
import { type Lifetimes, wasExchanged } from '../../grants/grant-lifetime.ts';
import { isLive } from '../../grants/grant-record.ts';
import { HttpError } from '../../http/errors.ts';
import type { Pages } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { isLevel } from '../../permission-level.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import {
  type Answer,
  type AnswerOptions,
  findAnswer,
  type FoundAnswer,
  isRecent,
  type Outcome,
  saveAnswer,
} from './answers.ts';
import { grantIdOf, requireFormToken } from './interaction.ts';

export type SecondAnswerOptions = AnswerOptions &
  AuditServices & {
    authUrl: string;
    pages: Pages;
    lifetimes: Lifetimes;
    stayConnected: 'offered' | 'on-request';
  };

export const DENIED = 'the person refused the connection';

/** False, and nothing was done, when nothing is known of a first answer of this browser. */
export async function answerAgain(
  options: SecondAnswerOptions,
  ctx: Koa.Context,
  uid: string,
  form: Record<string, string>,
): Promise<boolean> {
  const first = await findAnswer(options, ctx, uid, { isUnderWay: true });
  if (!first) return false;
  const { isForAccount } = requireFormToken(options.formKeys, uid, form.token);
  const { grant, outcome } = first;
  const accountId = grant && (isLive(grant) ? grant.grant.accountId : grant.accountId);
  const counts =
    isRecent(outcome, options.now()) && (accountId === undefined || isForAccount(accountId));
  const last = counts ? await takeAnswer(options, uid, form, first) : { outcome };
  if (last.location !== undefined) seeOther(ctx, last.location);
  else await showOutcome(options, ctx, last.outcome, counts && isTaken(form, last) ? 200 : 400);
  return true;
}

/** How the interaction ends after this answer. `location` is where the browser goes, if anywhere. */
async function takeAnswer(
  options: SecondAnswerOptions,
  uid: string,
  form: Record<string, string>,
  first: FoundAnswer,
): Promise<Answer> {
  switch (form.decision) {
    case 'deny':
      return deny(options, uid, first);
    case 'approve':
      return approve(options, uid, form, first);
    default:
      return { outcome: first.outcome };
  }
}

async function deny(
  options: SecondAnswerOptions,
  uid: string,
  { outcome, location, grant }: FoundAnswer,
): Promise<Answer> {
  if (outcome.decision !== 'approved') return { outcome, ...(location ? { location } : {}) };
  if (!grant) return { outcome };
  const { level: _level, ...rest } = outcome;
  if (!isLive(grant)) return { outcome: { ...rest, decision: 'withdrawn' } };
  const id = grantIdOf(options.formKeys, uid);
  await endConnection(options, { id, state: 'active' }, 'denied');
  // An app that has its tokens does not wait for an answer any more.
  const denied: Answer = wasExchanged(grant)
    ? { outcome: { ...rest, decision: 'withdrawn' } }
    : { outcome: { ...rest, decision: 'denied' }, ...deniedAt(location) };
  await saveAnswer(options.store, uid, denied);
  return denied;
}

/** The error response in place of the code (RFC 6749 section 4.1.2.1). */
function deniedAt(location: string | undefined): Pick<Answer, 'location'> {
  if (location === undefined) return {};
  const url = new URL(location);
  url.searchParams.delete('code');
  url.searchParams.set('error', 'access_denied');
  url.searchParams.set('error_description', DENIED);
  return { location: url.href };
}

async function approve(
  options: SecondAnswerOptions,
  uid: string,
  form: Record<string, string>,
  { outcome, location }: FoundAnswer,
): Promise<Answer> {
  const { level } = form;
  if (!isLevel(level))
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  if (outcome.decision !== 'approved') return { outcome };
  const stays = options.stayConnected === 'offered' ? form.stay === 'on' : true;
  const id = grantIdOf(options.formKeys, uid);
  const granted = await narrowConnection(options, id, { level, stays });
  if (granted === undefined) return { outcome };
  if (granted === outcome.level)
    return { outcome, ...(level === granted && location ? { location } : {}) };
  const lowered: Answer = { outcome: { ...outcome, level: granted } };
  await saveAnswer(options.store, uid, lowered);
  return lowered;
}

/** The page says what is decided now, which is what the form said. */
function isTaken({ decision, level }: Record<string, string>, { outcome }: Answer): boolean {
  return decision === 'approve' ? outcome.level === level : outcome.decision !== 'approved';
}

export async function showOutcome(
  options: Pick<SecondAnswerOptions, 'authUrl' | 'pages'>,
  ctx: Koa.Context,
  { decision, destination, level }: Outcome,
  status: number,
): Promise<void> {
  const values = {
    decision,
    destination,
    accountPage: options.authUrl + ACCOUNT_PATH,
    ...(level === undefined ? {} : { level }),
  };
  await options.pages.render(ctx, 'done', values, status);
}
