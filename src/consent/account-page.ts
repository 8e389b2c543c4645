// The account page: lists a person's connected apps; changes a level, disconnects apps and signs out.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { type Account, accountLifetime } from '../people/account.ts';
import { recordVisit } from '../people/visits.ts';
import type { Connection } from '../connections/connection.ts';
import {
  endConnection,
  endConnections,
  findConnection,
  listConnections,
  narrowConnection,
} from '../connections/connections.ts';
import { listCredentials } from '../credentials/credentials.ts';
import { endCredential } from '../credentials/end.ts';
import { readForm } from '../http/body.ts';
import { HttpError } from '../http/errors.ts';
import { createFormToken, requireFormToken } from '../http/form-tokens.ts';
import { limitRate } from '../http/rate-limits.ts';
import { seeOther } from '../http/see-other.ts';
import { requireNavigation } from '../http/fetch-metadata.ts';
import type { ViewValues } from '../pages/pages.ts';
import type { Settings } from '../settings/settings.ts';
import { isLevel, type Levels, levelsUpTo, lowestLevel } from '../permission-levels.ts';
import { isIdentifiedByHost } from '../oauth/engine/client-metadata-documents.ts';
import {
  ACCOUNT_PATH,
  accountFormContext,
  completeAccountSignIn,
  findAccountSession,
  SIGN_IN_PATH,
  type AccountSession,
  signOut,
  startAccountSignIn,
  startAccountSignInAt,
} from './account-session.ts';
import { learnedBy, learnedValues } from './learned.ts';
import { laterTools } from './later-tools.ts';
import { raisableLevels, startRaise } from './raise.ts';
import { accountValues } from './values.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { requireSameOrigin } from '../http/same-origin.ts';
import type { InteractionContext } from './interaction.ts';

const SIGNED_OUT_PATH = `${ACCOUNT_PATH}/signed-out`;

export function accountPage(context: InteractionContext): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(requireNavigation('GET, POST'));
  router.use(limitRate(context.services.rateLimits.signIns));
  const limitSignIns = limitRate(context.services.rateLimits.authorizations);
  router.get(ACCOUNT_PATH, async (ctx) => {
    const session = await findAccountSession(context, ctx);
    if (session) return showAccountPage(context, ctx, session);
    return limitSignIns(ctx, () => startAccountSignIn(context, ctx));
  });
  router.post(ACCOUNT_PATH, (ctx) => handleForm(context, ctx));
  const callback = `${ACCOUNT_PATH}/callback`;
  router.get([callback, `${callback}/:provider`], (ctx) => completeAccountSignIn(context, ctx));
  // After a sign-out the identity provider is asked to offer other accounts.
  router.get(SIGN_IN_PATH, limitSignIns, (ctx) => startAccountSignIn(context, ctx, 'switch'));
  router.post(SIGN_IN_PATH, limitSignIns, async (ctx) => {
    requireSameOrigin(ctx, context.settings.authUrl);
    return startAccountSignInAt(context, ctx, (await readForm(ctx)).provider);
  });
  router.get(SIGNED_OUT_PATH, (ctx) =>
    context.services.pages.render(ctx, 'signed-out', { signIn: SIGN_IN_PATH }),
  );
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (/^\/account(\/|$)/.test(ctx.path) ? routes(ctx, next) : next());
}

async function showAccountPage(
  context: InteractionContext,
  ctx: Koa.Context,
  session: AccountSession,
): Promise<void> {
  const { settings, services } = context;
  const lifetime = accountLifetime(settings);
  // A store that is full shows the page, so that people can disconnect.
  const visit = await recordVisit(services.store, session.account.id, {
    now: services.now(),
    lifetime,
  }).catch(() => undefined);
  const values = await accountPageValues(context, session.account, {
    since: visit?.since,
    action: ACCOUNT_PATH,
    token: createFormToken(context.services.keys.forms, accountFormContext(session)),
    done: ctx.query.done,
    changed: ctx.query.grant,
  });
  await context.services.pages.render(ctx, 'connected-apps', values);
}

type Outcome = 'disconnected' | 'disconnected-all' | 'lowered' | 'signed-out' | 'credential-ended';

async function handleForm(context: InteractionContext, ctx: Koa.Context): Promise<void> {
  requireSameOrigin(ctx, context.settings.authUrl);
  const form = await readForm(ctx);
  const session = await findAccountSession(context, ctx);
  // After the session has expired, the person signs in and decides again on the current page.
  if (!session) return seeOther(ctx, ACCOUNT_PATH);
  requireFormToken(context.services.keys.forms, accountFormContext(session), form.token);
  if (form.decision === 'raise')
    return startRaise(
      context,
      ctx,
      session,
      await requireOwnConnection(context, session, form.grant),
    );
  const outcome = await decide(context, ctx, session, form);
  if (outcome === 'signed-out') return seeOther(ctx, SIGNED_OUT_PATH);
  const query = new URLSearchParams({ done: outcome });
  if (outcome === 'disconnected' || outcome === 'lowered') query.set('grant', form.grant ?? '');
  seeOther(ctx, `${ACCOUNT_PATH}?${query}`);
}

async function decide(
  context: InteractionContext,
  ctx: Koa.Context,
  session: AccountSession,
  form: Record<string, string>,
): Promise<Outcome> {
  switch (form.decision) {
    case 'sign-out':
      await signOut(context, ctx);
      return 'signed-out';
    case 'disconnect-all':
      await endConnections(
        context.settings,
        context.services,
        { account: session.account.id },
        'disconnected',
      );
      return 'disconnected-all';
    case 'disconnect':
      await endConnection(
        context.services,
        await requireOwnConnection(context, session, form.grant),
        'disconnected',
      );
      return 'disconnected';
    case 'lower':
      return lower(context, session, form);
    case 'end-credential':
      await endCredential(
        context,
        { account: session.account.id, upstream: form.upstream ?? '' },
        { cause: 'disconnected' },
      );
      return 'credential-ended';
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

async function lower(
  context: InteractionContext,
  session: AccountSession,
  { grant, level }: Record<string, string>,
): Promise<Outcome> {
  if (!isLevel(context.settings.levels, level))
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  const { id } = await requireOwnConnection(context, session, grant);
  await narrowConnection(context.settings, context.services, id, { level, stays: true });
  return 'lowered';
}

/** Throws 404 also for a connection of another account. */
async function requireOwnConnection(
  context: InteractionContext,
  { account }: AccountSession,
  grant = '',
) {
  const connection = await findConnection(context.settings, context.services, grant);
  if (connection?.account.id === account.id) return connection;
  throw new HttpError(404, 'not_found', 'you have no connection with this id');
}

type Values = ViewValues['connected-apps'];

const DONE = ['disconnected', 'disconnected-all', 'lowered', 'raised', 'credential-ended'] as const;
const MAX_ACTIVITY = 50;

async function accountPageValues(
  { settings, services, site }: InteractionContext,
  account: Account,
  {
    action,
    token,
    done,
    changed,
    since,
  }: {
    action: string;
    token: string;
    done: unknown;
    changed: unknown;
    since: number | undefined;
  },
): Promise<Values> {
  const found = await Array.fromAsync(listConnections(settings, services, { account: account.id }));
  const newestFirst = found.map(({ item: connection }) => connection).toReversed();
  const laterOf = laterTools({ settings, services }, account);
  const outcome = DONE.find((known) => known === done);
  const about = newestFirst.find(({ id }) => id === changed);
  return {
    action,
    token,
    account: accountValues(site.identityProviders, account),
    credentials: await credentialValues({ settings, services }, account.id),
    apps: await Promise.all(
      newestFirst.filter(isConnected).map(async (connection) => ({
        ...appValues(settings, connection),
        ...(connection.createdAt > (since ?? Infinity) ? { isNew: true } : {}),
        later: await laterOf(connection),
      })),
    ),
    activity: newestFirst
      .filter(({ state }) => state === 'ended')
      .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
      .slice(0, MAX_ACTIVITY)
      .map((connection) => activityValues(settings, connection)),
    ...(outcome ? { done: outcome } : {}),
    ...(about && (outcome === 'disconnected' || outcome === 'lowered' || outcome === 'raised')
      ? { doneApp: changedValues(settings.levels, about) }
      : {}),
  };
}

/** The own accounts at servers. */
async function credentialValues(
  { settings, services }: Pick<InteractionContext, 'settings' | 'services'>,
  account: string,
): Promise<Values['credentials']> {
  const stored = await listCredentials(services.store, { account });
  return stored.map(({ upstream, kind, service: client, name, scopes, connectedAt, isUntried }) => {
    const stays = kind === 'key' || client?.revocationEndpoint === undefined;
    const { name: service = upstream } = findUpstream(settings.upstreams, { upstream }) ?? {};
    return {
      upstream,
      service,
      scopes,
      since: connectedAt,
      ...(name === undefined ? {} : { name }),
      ...(isUntried ? { isUntried } : {}),
      ...(kind === 'exchange' ? { isOfSignIn: true } : stays ? { stays: true } : {}),
    };
  });
}

function isConnected({ state }: Connection): boolean {
  return state === 'active' || state === 'refused';
}

function appValues(settings: Settings, connection: Connection): Values['apps'][number] {
  const { levels, clients, upstreams } = settings;
  const { id, client, connector, level, createdAt, lastUsedAt, expiresAt, reason } = connection;
  const { name = connector.id } = connector;
  const learned = learnedBy({ upstreams }, { ...connector, name }, connection.callerClaims ?? []);
  return {
    grant: id,
    client: clientValues(clients, connection),
    destination: client.redirectHost,
    connector: name,
    ...(learned ? { learned: learnedValues(learned) } : {}),
    level: level ?? lowestLevel(levels),
    lower: level === undefined ? [] : levelsUpTo(levels, level).slice(0, -1),
    ...(raisableLevels(settings, connection).length > 0 ? { mayRaise: true } : {}),
    since: createdAt,
    lastUsed: lastUsedAt ?? createdAt,
    until: expiresAt ?? createdAt,
    ...(reason ? { reason } : {}),
  };
}

function changedValues(
  levels: Levels,
  { client, connector, level = lowestLevel(levels) }: Connection,
): NonNullable<Values['doneApp']> {
  return { client: client.name, connector: connector.name ?? connector.id, level };
}

function activityValues(
  { clients }: Pick<Settings, 'clients'>,
  connection: Connection,
): Values['activity'][number] {
  const { connector, level, endedAt, reason = 'revoked_by_administrator' } = connection;
  return {
    client: clientValues(clients, connection),
    connector: connector.name ?? connector.id,
    reason,
    ...(level === undefined ? {} : { level }),
    ...(endedAt === undefined ? {} : { at: endedAt }),
  };
}

function clientValues(
  { preRegistered }: Settings['clients'],
  { client: { id, name } }: Connection,
): Values['apps'][number]['client'] {
  if (isIdentifiedByHost(id)) return { name, host: new URL(id).host };
  return {
    name,
    ...(preRegistered.some((known) => known.id === id) ? {} : { isUnverified: true }),
  };
}
