// Refusals of people: for each, an item in the audit log, a line in the log and a count.
import type Koa from 'koa';
import { recordAudit } from '../audit/audit.ts';
import { HttpError } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import type { AccessRefusal } from '../observability/labels.ts';
import { engineRequest, type RefusedPerson } from '../oauth/engine/engine-request.ts';
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

/** As long as an interaction, in which a refusal is recorded once. */
const INTERACTION_SECONDS = 3600;

/** Records the refusals of the engine, and errors of the pages of an interaction. */
export function recordRefusals(context: InteractionContext): Koa.Middleware {
  return async function refusalsRecorded(ctx, next) {
    try {
      await next();
    } catch (error) {
      const reason = reasonOf(error);
      if (reason) await recordInteractionRefusal(context, ctx, reason);
      throw error;
    }
    const { refusal } = engineRequest(ctx);
    if (refusal) await recordRefusal(context, ctx, refusal);
  };
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
 * Once for each interaction and reason. Above a limit by address and person, items are no longer recorded, and one says so. Errors are logged
 * and do not change the response.
 */
export async function recordRefusal(
  context: InteractionContext,
  ctx: Koa.Context,
  { reason, ...person }: RefusedPerson,
): Promise<void> {
  const { settings, services } = context;
  const { store, logger, metrics, rateLimits } = services;
  const { requestId, address } = requestContext(ctx);
  try {
    const uid = interactionOf(ctx);
    const isFirst =
      uid === undefined ||
      (await store.add(`access-refused:${uid}:${reason}`, 1, INTERACTION_SECONDS));
    if (!isFirst) return;
    metrics.accessRefused(reason);
    const tried =
      reason === 'no_rule'
        ? { tried: [...new Set(settings.entitlements.map(({ match }) => ruleKind(match)))] }
        : {};
    logger.info({ reason, requestId, ...person, ...tried }, 'a person got no access');
    const { recordedAccessRefusals: recorded, accessRefusalGaps: gaps } = rateLimits;
    const isOver = (await recorded.consume(address, person.account)) !== undefined;
    if (isOver && (await gaps.consume(address, person.account)) !== undefined) return;
    await recordAudit(services, {
      event: 'access_refused',
      ...person,
      ...(reason === 'no_rule' ? { arguments: tried } : {}),
      outcome: isOver ? 'refused_unrecorded' : 'refused',
      reason,
    });
  } catch (error) {
    logger.error({ err: error }, 'a refusal could not be recorded');
  }
}

const INTERACTION_PATH = /^\/(?:interaction|oauth\/authorize|device)\/([^/]+)/;

function interactionOf({ path }: Koa.Context): string | undefined {
  return INTERACTION_PATH.exec(path)?.[1];
}
