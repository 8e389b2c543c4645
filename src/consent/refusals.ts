// Refusals of people: for each, an item in the audit log, a line in the log and a count.
import type Koa from 'koa';
import { INTERACTION_SECONDS } from '../connections/attempts.ts';
import { type RefusedPerson, saveRefusal } from '../connections/refusals.ts';
import { recordAudit } from '../audit/audit.ts';
import { HttpError } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import type { AccessRefusal } from '../observability/labels.ts';
import { engineRequest, noteAttempt } from '../oauth/engine/engine-request.ts';
import { ClientWaiting } from '../oauth/error-page.ts';
import { connectorIdOf } from '../links/connect-link.ts';
import { ruleKind } from '../people/entitlement.ts';
import { type InteractionContext, requireInteraction } from './interaction.ts';

/** A person gets no access for this reason. */
export class AccessRefused extends HttpError {
  readonly reason: AccessRefusal;

  constructor(
    reason: AccessRefusal,
    ...[status, code, message]: [status: number, code: string, message: string]
  ) {
    super(status, code, message);
    this.reason = reason;
  }
}

/** Records the refusals of the engine, also where a page of ours replaces its response, and errors of the pages of an interaction. */
export function recordRefusals(context: InteractionContext): Koa.Middleware {
  return async function refusalsRecorded(ctx, next) {
    try {
      await next();
    } catch (error) {
      const reason = reasonOf(error);
      if (reason) await recordInteractionRefusal(context, ctx, reason);
      else await recordEngineRefusal(context, ctx);
      throw error;
    }
    await recordEngineRefusal(context, ctx);
  };
}

async function recordEngineRefusal(context: InteractionContext, ctx: Koa.Context): Promise<void> {
  const { refusal } = engineRequest(ctx);
  if (refusal) await recordRefusal(context, ctx, refusal);
}

function reasonOf(error: unknown): AccessRefusal | undefined {
  if (error instanceof AccessRefused) return error.reason;
  return error instanceof ClientWaiting ? 'client_waiting' : undefined;
}

async function recordInteractionRefusal(
  context: InteractionContext,
  ctx: Koa.Context,
  reason: AccessRefusal,
): Promise<void> {
  const { settings, engine, services } = context;
  try {
    const uid = interactionOf(ctx) ?? '';
    const { params, session } = await requireInteraction(engine.provider(), ctx, uid);
    await recordRefusal(context, ctx, {
      reason,
      account: session?.accountId,
      clientId: String(params.client_id),
      connector: connectorIdOf(settings.resourceUrl, String(params.resource)),
    });
  } catch (error) {
    services.logger.error({ err: error }, 'a refusal could not be recorded');
  }
}

/**
 * Once for each interaction and reason. Returns the reference under which it is found. Above a limit by address and person, items are no longer
 * recorded, and one says so. Errors are logged and do not change the response.
 */
export async function recordRefusal(
  context: InteractionContext,
  ctx: Koa.Context,
  person: RefusedPerson,
): Promise<string> {
  const { requestId } = requestContext(ctx);
  const { reason, account, clientId: client, connector } = person;
  noteAttempt(ctx, { end: 'refused', reason, account, client, connector, reference: requestId });
  try {
    const earlier = await earlierReference(context, ctx, person);
    if (earlier === undefined) await record(context, ctx, person);
    return earlier ?? requestId;
  } catch (error) {
    context.services.logger.error({ err: error }, 'a refusal could not be recorded');
    return requestId;
  }
}

/** Undefined for the first refusal of the interaction for this reason. */
async function earlierReference(
  { services: { store } }: InteractionContext,
  ctx: Koa.Context,
  { reason }: RefusedPerson,
): Promise<string | undefined> {
  const uid = interactionOf(ctx);
  if (uid === undefined) return undefined;
  const key = `access-refused:${uid} ${reason}`;
  const isFirst = await store.add(key, requestContext(ctx).requestId, INTERACTION_SECONDS);
  return isFirst ? undefined : (await store.get<string>(key))?.value;
}

async function record(
  { settings, services }: InteractionContext,
  ctx: Koa.Context,
  person: RefusedPerson,
): Promise<void> {
  const { store, logger, metrics, rateLimits, now } = services;
  const { requestId, address } = requestContext(ctx);
  const { reason, account } = person;
  const kinds = settings.entitlements.map(({ match }) => ruleKind(match));
  const tried = reason === 'no_rule' ? { tried: [...new Set(kinds)] } : {};
  metrics.accessRefused(reason);
  logger.info({ requestId, ...person, ...tried }, 'a person got no access');
  const { recordedAccessRefusals: recorded, accessRefusalGaps: gaps } = rateLimits;
  const isOver = (await recorded.consume(address, account)) !== undefined;
  if (isOver && (await gaps.consume(address, account)) !== undefined) return;
  await saveRefusal(store, requestId, { ...person, ...tried, at: now() });
  await recordAudit(services, {
    event: 'access_refused',
    ...person,
    arguments: { reference: requestId, ...tried },
    outcome: isOver ? 'refused_unrecorded' : 'refused',
  });
}

const INTERACTION_PATH = /^\/(?:interaction|oauth\/authorize|device)\/([^/]+)/;

function interactionOf({ path }: Koa.Context): string | undefined {
  return INTERACTION_PATH.exec(path)?.[1];
}
