// More access for a connected app, from the account page. An interaction of our own leads through the ordinary consent page with its sign-in; the app
// takes no part, and gets the level with its next refresh.
import type Koa from 'koa';
import { INTERACTION_SECONDS } from '../connections/attempts.ts';
import type { Connection } from '../connections/connection.ts';
import { findConnection, raiseConnection } from '../connections/connections.ts';
import { levelWithoutDpop, requiresDpop } from '../dpop/required-levels.ts';
import { HttpError } from '../http/errors.ts';
import { seeOther } from '../http/see-other.ts';
import { connectLink } from '../links/connect-link.ts';
import { type Level, levelsUpTo } from '../permission-levels.ts';
import { startOwnInteraction } from '../oauth/engine/own-interaction.ts';
import { ACCOUNT_PATH, type AccountSession } from './account-session.ts';
import {
  finishInteraction,
  type Interaction,
  type InteractionContext,
  type SignInResult,
} from './interaction.ts';
import type { ConsentRequest } from './load.ts';

/** The connection ended, or cannot get more access: the account page shows what is true now. */
export class NothingToRaise extends HttpError {
  constructor() {
    super(404, 'not_found', 'this connection can get no more access');
  }
}

/** Returns the levels that the person can give the app now, lowest first. Without a refresh, none would reach it. */
export function raisableLevels(
  settings: InteractionContext['settings'],
  { state, level, ceiling, refresh }: Connection,
): Level[] {
  if (state !== 'active' || level === undefined || ceiling === undefined || !refresh) return [];
  // A client without a key gets no token of a level that requires DPoP. One that has such a level has shown that it has a key.
  const usesDpop = refresh === 'bound' || requiresDpop(settings, level);
  const reachable = usesDpop ? ceiling : levelWithoutDpop(settings, ceiling);
  if (reachable === undefined) return [];
  const { length } = levelsUpTo(settings.levels, level);
  return levelsUpTo(settings.levels, reachable).slice(length);
}

/** Starts an interaction that is already signed in, and redirects to its consent page. `connection` is one of the session's person. */
export async function startRaise(
  context: InteractionContext,
  ctx: Koa.Context,
  { account, sessionUid }: AccountSession,
  connection: Connection,
): Promise<void> {
  const { settings, engine } = context;
  if (raisableLevels(settings, connection).length === 0) throw new NothingToRaise();
  await startOwnInteraction(engine.provider(), ctx, {
    folder: '/interaction',
    cookie: 'interaction',
    seconds: INTERACTION_SECONDS,
    returnPath: '/raise',
    payload: {
      prompt: { name: 'consent', reasons: [], details: {} },
      session: { accountId: account.id, uid: sessionUid },
      params: {
        client_id: connection.client.id,
        resource: connectLink(settings.resourceUrl, connection.connector.id),
        raise: connection.id,
      },
    },
  });
}

/** Throws NothingToRaise if it has ended or belongs to another person. */
export async function requireRaisable(
  { settings, services }: InteractionContext,
  id: string,
  accountId: string | undefined,
): Promise<Connection> {
  const connection = await findConnection(settings, services, id);
  const isOwn = connection?.account.id === accountId && connection?.state !== 'ended';
  if (connection && isOwn) return connection;
  throw new NothingToRaise();
}

/** Raises the connection and returns to the account page. Resolves to true, and does nothing, if its level changed meanwhile. */
export async function approveRaise(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  { id, level: from }: NonNullable<ConsentRequest['raise']>,
  to: Level,
): Promise<boolean> {
  const { settings, services } = context;
  const result = await raiseConnection(settings, services, id, { from, to });
  if (result === 'ended') throw new NothingToRaise();
  if (result === 'raised') await finishRaise(context, ctx, interaction, { id });
  return result === 'changed';
}

/** Also for another copy of a form that has raised the connection. */
export function finishRaise(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  { id }: Pick<NonNullable<ConsentRequest['raise']>, 'id'>,
): Promise<void> {
  return finishInteraction(context, ctx, interaction, { raised: id });
}

/** What the engine does when it resumes an interaction. After a sign-in without an approval, the consent page is shown again. */
export async function resumeRaise(ctx: Koa.Context, interaction: Interaction): Promise<void> {
  const { error, raised, ...signIn } = (interaction.result ?? {}) as SignInResult & {
    error?: string;
  };
  if (raised !== undefined) {
    const query = new URLSearchParams({ done: 'raised', grant: raised });
    return seeOther(ctx, `${ACCOUNT_PATH}?${query}`);
  }
  if (error !== undefined) return seeOther(ctx, ACCOUNT_PATH);
  Object.assign(interaction, { lastSubmission: signIn, result: undefined });
  await interaction.persist();
  seeOther(ctx, `/interaction/${interaction.uid}`);
}
