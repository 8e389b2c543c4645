// Ends sessions when the identity provider says so (OpenID Connect Back-Channel Logout 1.0 section 2.5).
import type { Router } from '@koa/router';
import type Koa from 'koa';
import { accountIdOf, withGrantsEnded, withSessionsEnded } from '../people/account.ts';
import { endSessions, updateAccount } from '../people/accounts.ts';
import { endedByProvider } from '../people/recheck.ts';
import { recordAudit } from '../audit/audit.ts';
import { endConnectionsEndedByProvider } from '../connections/connections.ts';
import { readForm } from '../http/body.ts';
import { HttpError, notFound, tooManyRequests } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import { LOGOUT_PATH, type LogoutToken } from '../sign-in/logout-token.ts';
import { type IdentityProvider, requireProvider } from '../sign-in/provider.ts';
import { endProviderSession, type ProviderSession } from '../sign-in/provider-sessions.ts';
import { comparableIssuer, issuerSpellings } from '../settings/value-types.ts';
import type { InteractionContext } from '../consent/interaction.ts';

const MAX_REQUEST_BYTES = 16 * 1024;
/** If this process is killed while it ends sessions, the provider may send the token again after this time. */
const CLAIM_SECONDS = 10;

/** Each provider of a list has its own address. Responds with JSON regardless of `Accept`. */
export function backchannelLogout(router: Router, context: InteractionContext): void {
  const paths = [LOGOUT_PATH, `${LOGOUT_PATH}/:provider`];
  router.post(paths, async (ctx) => {
    ctx.req.headers.accept = 'application/json';
    const provider = requireProvider(context.site.identityProviders, ctx.params.provider);
    const logout = await verifiedToken(context, ctx, provider);
    await useOnce(context, logout, () => endAll(context, provider, logout));
    ctx.status = 200;
    ctx.set('Cache-Control', 'no-store');
    ctx.body = '';
  });
}

/** Counts only refused tokens, because one provider sends those of all its people. */
async function verifiedToken(
  { services: { rateLimits, now } }: InteractionContext,
  ctx: Koa.Context,
  { verifyLogoutToken }: IdentityProvider,
): Promise<LogoutToken> {
  if (!verifyLogoutToken) throw notFound('this identity provider sends no logout tokens');
  const { logout_token: token = '' } = await readForm(ctx, MAX_REQUEST_BYTES);
  try {
    return await verifyLogoutToken(token, now());
  } catch (error) {
    const wait = await rateLimits.wrongTokens.consume(requestContext(ctx).address);
    throw wait === undefined ? error : tooManyRequests(wait);
  }
}

/** A token counts once, unless `use` fails: then the provider may send it again. */
async function useOnce(
  { services: { store, now } }: InteractionContext,
  { issuer, id, expiresAt }: LogoutToken,
  use: () => Promise<void>,
): Promise<void> {
  const key = `logout-token:${comparableIssuer(issuer)}\n${id}`;
  const claim = { at: Math.floor(now()) };
  if (!(await store.add(key, claim, CLAIM_SECONDS)))
    throw new HttpError(400, 'invalid_request', 'the logout token was already used');
  try {
    await use();
    await store.set(key, claim, expiresAt - now());
  } catch (error) {
    await store.delete(key).catch(() => undefined);
    throw error;
  }
}

/**
 * With `sid`, ends that session only (section 2.6). The connections of `sub` end too if the settings say so. Accounts have the issuer as their ID
 * token spelled it.
 */
async function endAll(
  context: InteractionContext,
  provider: IdentityProvider,
  logout: LogoutToken,
): Promise<void> {
  const { settings, services, site } = context;
  const { subject, sid } = logout;
  const end = subject === undefined ? undefined : personEnd(provider, logout);
  const signedOut = new Set<string>();
  const known: string[] = [];
  for (const issuer of issuerSpellings(logout.issuer)) {
    if (sid !== undefined)
      for (const id of await endSession(context, { issuer, sid })) signedOut.add(id);
    if (!end) continue;
    const account = accountIdOf(services.keys.accountIds, issuer, subject ?? '');
    const isKnown = await updateAccount(services.store, account, site.accountLifetime, (person) =>
      end(person, services.now()),
    );
    if (isKnown) known.push(account);
  }
  const sessions = sid === undefined ? 'all' : 'one';
  await recordLogout(context, signedOut.union(new Set(known)), sessions);
  if (provider.backchannelLogout === 'connections')
    for (const account of known) await endConnectionsEndedByProvider(settings, services, account);
}

/** What a token with `sub` changes in the person's record. One write, so that a connection that is approved meanwhile is invalid too. */
function personEnd({ backchannelLogout }: IdentityProvider, { sid }: LogoutToken) {
  if (backchannelLogout === 'connections')
    return sid === undefined ? endedByProvider : withGrantsEnded;
  return sid === undefined ? withSessionsEnded : undefined;
}

/** Returns the accounts that had signed in with the session at the provider. */
async function endSession(
  context: InteractionContext,
  session: ProviderSession,
): Promise<string[]> {
  const { services, site } = context;
  const { store } = services;
  const signIns = await endProviderSession(store, session, site.sessionLifetime);
  const accounts = [...new Set(signIns.map(({ account }) => account))];
  for (const id of accounts) {
    const own = signIns.filter(({ account }) => account === id).map(({ at }) => at);
    await endSessions(store, id, own, { now: services.now(), ttl: site.accountLifetime });
  }
  return accounts;
}

async function recordLogout(
  { services }: InteractionContext,
  accounts: Iterable<string>,
  sessions: 'one' | 'all',
): Promise<void> {
  for (const account of accounts)
    await recordAudit(services, {
      event: 'backchannel_logout',
      account,
      arguments: { sessions },
      outcome: 'done',
    });
}
