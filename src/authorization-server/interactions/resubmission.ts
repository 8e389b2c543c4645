// Consent forms that are submitted after their interaction has finished. The last decision applies, but can only narrow the grant.
import type Koa from 'koa';
import type { AuditServices } from '../../audit/audit.ts';
import { endConnection, narrowConnection } from '../../connections/connections.ts';
import { type Lifetimes, wasExchanged } from '../../grants/grant-lifetime.ts';
import { isLive } from '../../grants/grant-record.ts';
import { HttpError } from '../../http/errors.ts';
import type { Pages } from '../../pages/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { isLevel } from '../../permission-level.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import {
  type ConsentResult,
  type ConsentResultOptions,
  findConsentResult,
  type FoundConsentResult,
  isChangeable,
  type ConsentOutcome,
  saveConsentResult,
} from './consent-result.ts';
import { grantIdOf, requireConsentToken } from './interaction.ts';

export type ResubmissionOptions = ConsentResultOptions &
  AuditServices & {
    authUrl: string;
    pages: Pages;
    lifetimes: Lifetimes;
    stayConnected: 'offered' | 'on-request';
  };

export const DENIED_DESCRIPTION = 'the person refused the connection';

/** Returns false and does nothing if no result is stored for this browser's interaction. */
export async function handleResubmission(
  options: ResubmissionOptions,
  ctx: Koa.Context,
  uid: string,
  form: Record<string, string>,
): Promise<boolean> {
  const first = await findConsentResult(options, ctx, uid, { isFinishing: true });
  if (!first) return false;
  const { isForAccount } = requireConsentToken(options.formKeys, uid, form.token);
  const { grant, outcome } = first;
  const accountId = grant && (isLive(grant) ? grant.grant.accountId : grant.accountId);
  const isAllowed =
    isChangeable(outcome, options.now()) && (accountId === undefined || isForAccount(accountId));
  const last = isAllowed ? await applyDecision(options, uid, form, first) : { outcome };
  if (last.location !== undefined) seeOther(ctx, last.location);
  else
    await showOutcome(options, ctx, last.outcome, isAllowed && isApplied(form, last) ? 200 : 400);
  return true;
}

/** Returns the new result. `location` is set if the browser is redirected to the app. */
async function applyDecision(
  options: ResubmissionOptions,
  uid: string,
  form: Record<string, string>,
  first: FoundConsentResult,
): Promise<ConsentResult> {
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
  options: ResubmissionOptions,
  uid: string,
  { outcome, location, grant }: FoundConsentResult,
): Promise<ConsentResult> {
  if (outcome.decision !== 'approved') return { outcome, ...(location ? { location } : {}) };
  if (!grant) return { outcome };
  const { level: _level, ...rest } = outcome;
  if (!isLive(grant)) return { outcome: { ...rest, decision: 'withdrawn' } };
  const id = grantIdOf(options.formKeys, uid);
  await endConnection(options, { id, state: 'active' }, 'denied');
  // An app that has exchanged its code expects no further authorization response.
  const denied: ConsentResult = wasExchanged(grant)
    ? { outcome: { ...rest, decision: 'withdrawn' } }
    : { outcome: { ...rest, decision: 'denied' }, ...deniedLocation(location) };
  await saveConsentResult(options.store, uid, denied);
  return denied;
}

/** The error response in place of the code (RFC 6749 section 4.1.2.1). */
function deniedLocation(location: string | undefined): Pick<ConsentResult, 'location'> {
  if (location === undefined) return {};
  const url = new URL(location);
  url.searchParams.delete('code');
  url.searchParams.set('error', 'access_denied');
  url.searchParams.set('error_description', DENIED_DESCRIPTION);
  return { location: url.href };
}

async function approve(
  options: ResubmissionOptions,
  uid: string,
  form: Record<string, string>,
  { outcome, location }: FoundConsentResult,
): Promise<ConsentResult> {
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
  const narrowed: ConsentResult = { outcome: { ...outcome, level: granted } };
  await saveConsentResult(options.store, uid, narrowed);
  return narrowed;
}

/** Whether the result matches the decision in the form. */
function isApplied(
  { decision, level }: Record<string, string>,
  { outcome }: ConsentResult,
): boolean {
  return decision === 'approve' ? outcome.level === level : outcome.decision !== 'approved';
}

export async function showOutcome(
  options: Pick<ResubmissionOptions, 'authUrl' | 'pages'>,
  ctx: Koa.Context,
  { decision, destination, level }: ConsentOutcome,
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
