// The steps of a call, from top to bottom.
import { type Connector, connectorState } from '../links/connector.ts';
import { clientGone, HttpError } from '../http/errors.ts';
import { whenClosed } from '../http/request-context.ts';
import { membersOf } from '../json-values.ts';
import { recordLastUse } from '../links/minted-tokens.ts';
import { highestLevelIn, isAtLeast } from '../permission-levels.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import type { LeadsToUpstream } from '../settings/upstreams.ts';
import {
  authenticate,
  authenticateMintedToken,
  type Authentication,
  type Caller,
  limitOwner,
} from './authenticate.ts';
import {
  authorize,
  authorizeRequest,
  challengeForStepUp,
  insufficientScope,
  type RequiredLevel,
} from './authorize.ts';
import type { Access, AuthenticatedCall, Call } from './call.ts';
import type { CallAudit } from './call-audit.ts';
import type { LimitCalls } from './call-limits.ts';
import type { RequireDpopProof } from './dpop.ts';
import type { HeldBytes } from './held-bytes.ts';
import { InBandError } from './in-band-error.ts';
import { idOf } from './json-rpc.ts';
import type { McpHandler } from './mcp-handler.ts';
import { pauseOf, servePaused } from './paused.ts';
import { readBody } from './read-body.ts';
import type { RecordCache } from './record-cache.ts';
import { outlineOf } from './request-outline.ts';
import { replaceToleratedHeaders } from './tolerated-headers.ts';

/** What all calls share. */
export type Gateway = {
  settings: Settings;
  services: Pick<Services, 'store' | 'activity' | 'attempts' | 'now'>;
  records: RecordCache;
  /** Counts the changes of records and of the settings in force. */
  changes: () => number;
  authentication: Authentication;
  requireDpopProof: RequireDpopProof;
  /** The handler of the MCP server that a connector or a minted token leads to. */
  handlerOf: (record: LeadsToUpstream) => McpHandler | Promise<McpHandler>;
  heldBytes: HeldBytes;
  audit: CallAudit;
  limitCalls: LimitCalls;
};

/** Resolves when the response is complete or its stream has begun. Throws HttpError before. */
export async function serve(gateway: Gateway, started: Call): Promise<void> {
  whenClosed(started.ctx, () => gateway.audit.end(started));
  const known = gateway.changes();
  const access = await authenticateCall(gateway, started);
  const { caller, connector, mintedToken } = access;
  // A refusal of the proof is on record with whose token it was.
  Object.assign(started, access);
  if (caller.grantId !== undefined) gateway.services.attempts.called(caller.grantId);
  if (connector && caller.keyThumbprint !== undefined)
    await gateway.requireDpopProof(started.ctx, connector, caller);
  const serving = gateway.handlerOf(connector ?? mintedToken);
  const handler = serving instanceof Promise ? await serving : serving;
  const call = openCall(gateway, started, access, handler, known);
  call.body = await readMessages(gateway, call);
  const reading = pauseOf(call, gateway.authentication.settings)
    ? undefined
    : handler.readToolsFor?.(call);
  if (reading) await reading;
  // Both may have taken long.
  if (gateway.changes() !== known) Object.assign(call, await authenticateCall(gateway, started));
  // Its end was noted, so that nothing would end what begins now.
  if (call.ctx.res.destroyed) throw clientGone();
  call.toolCalls = toolCallsIn(call.body);
  const required = requiredLevels(call);
  call.required = required;
  gateway.audit.begin(call, required);
  const pause = pauseOf(call, gateway.authentication.settings);
  if (pause) return servePaused(call, pause);
  authorizeCall(gateway, call, required);
  const limiting = gateway.limitCalls(gateway.authentication.settings, call, required);
  if (limiting) {
    await limiting;
    const revalidating = call.revalidateIfChanged();
    if (revalidating) await revalidating;
  }
  replaceToleratedHeaders(call.ctx.req.headers);
  await handler.handle(call);
  noteUse(gateway, call);
}

/** Also ends what has begun when it is paused, when its level is lowered or when it may not be used any more: it could tell more than is allowed. */
async function revalidate(gateway: Gateway, call: AuthenticatedCall): Promise<Access> {
  const { settings } = gateway.authentication;
  const access = await authenticateCall(gateway, call);
  const pause = pauseOf(access, settings);
  if (pause) throw pause;
  if (!isAtLeast(settings.levels, access.caller.level, call.caller.level))
    throw new InBandError(503, 'changed_meanwhile', LOWERED);
  const isAllowed = (caller: Caller, required: RequiredLevel | undefined) =>
    authorizeRequest(settings.levels, caller, required).decision === 'allowed';
  const isLost = call.required.some(
    (each) => isAllowed(call.caller, each) && !isAllowed(access.caller, each),
  );
  if (isLost) throw new InBandError(503, 'changed_meanwhile', CLOSED);
  return access;
}

const LOWERED =
  'the level of this connection was lowered meanwhile, so the result is withheld; what was asked for may have been done';

const CLOSED =
  'what this connection may use was changed meanwhile, so the result is withheld; what was asked for may have been done';

async function authenticateCall(gateway: Gateway, call: Call): Promise<Access> {
  const { authentication } = gateway;
  const { ctx, connectorId } = call;
  if (connectorId === undefined) {
    const { record, ...caller } = await authenticateMintedToken(authentication, ctx);
    return { caller, mintedToken: record };
  }
  const found = gateway.records.readConnector(connectorId);
  const connector = requireUsable(gateway, found instanceof Promise ? await found : found);
  return { caller: await authenticate(authentication, ctx, connector), connector };
}

type ConnectorRules = Pick<Gateway, 'authentication' | 'services'>;

/** Throws 404 if the connector does not exist, and 410 if it ended. A connector without uses left still serves its connections. */
export async function requireConnector(
  gateway: ConnectorRules & Pick<Gateway, 'records'>,
  id: string,
): Promise<Connector> {
  return requireUsable(gateway, await gateway.records.readConnector(id));
}

function requireUsable(
  { authentication, services }: ConnectorRules,
  connector: Connector | undefined,
): Connector {
  if (!connector)
    throw new HttpError(
      404,
      'not_found',
      'this connect link does not exist; check that you copied the whole link',
      { about: 'link_unknown' },
    );
  const state = connectorState(connector, services.now(), authentication.settings);
  if (state === 'revoked')
    throw gone('this connect link was revoked; ask for a fresh one', 'link_revoked');
  if (state === 'expired')
    throw gone('this connect link has expired; ask for a fresh one', 'link_expired');
  if (state === 'unconfigured')
    throw gone(
      'the level or the MCP server of this connect link is no longer configured; ask for a fresh one',
      'link_unconfigured',
    );
  return connector;
}

/** `about` is the key of the texts of the page. */
function gone(message: string, about: string): HttpError {
  return new HttpError(410, 'gone', message, { about });
}

/**
 * `known` is the count of changes before the request was authenticated. Takes a slot of the caller's limits before the body is read, and frees it when the response ends. Throws an InBandError if the caller has too many
 * calls open.
 */
function openCall(
  gateway: Gateway,
  started: Call,
  access: Access,
  handler: McpHandler,
  known: number,
): AuthenticatedCall {
  const { ctx } = started;
  // It may have gone while it was authenticated: then no `close` would free what it gets.
  if (ctx.res.destroyed) throw clientGone();
  const call: AuthenticatedCall = Object.assign(started, access, {
    handler,
    revalidate: () => revalidate(gateway, call),
    revalidateIfChanged: () => (gateway.changes() === known ? undefined : call.revalidate()),
    stepUpTo: (scope: string) => stepUpTo(gateway, call, scope),
    slot: handler.acquire(access.caller, ctx.method === 'POST' ? 'working' : 'listening'),
    hold: gateway.heldBytes.hold(limitOwner(access.caller)),
    body: undefined,
    toolCalls: 0,
    required: [],
  });
  whenClosed(ctx, () => {
    call.slot.release();
    call.hold.release();
  });
  return call;
}

async function readMessages({ settings }: Gateway, call: AuthenticatedCall): Promise<unknown> {
  const { ctx, hold, handler } = call;
  if (ctx.method !== 'POST') return undefined;
  const { maxBodyBytes: limit } = settings.resourceServer;
  const keepBigIntegers = settings.upstreams.length > 0;
  const body = await readBody(ctx, {
    limit,
    keepBigIntegers,
    refuseRepeated: handler.refusesRepeated?.() ?? false,
    hold,
    onRefused: (outline) => void (call.outline = outline),
  });
  call.messageId = idOf(body);
  call.outline = outlineOf(body);
  return body;
}

function toolCallsIn(body: unknown): number {
  const isCall = (message: unknown) => membersOf(message).method === 'tools/call';
  return Array.isArray(body) ? body.filter(isCall).length : Number(isCall(body));
}

/** What each message of the body needs. */
function requiredLevels({ handler, body }: AuthenticatedCall): (RequiredLevel | undefined)[] {
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  return messages.map((message) => handler.requiredBy(message));
}

/** Throws 403 if the person can grant the level that is missing. The handler refuses what nobody can grant. */
function authorizeCall(
  { settings }: Gateway,
  { connector, caller }: AuthenticatedCall,
  needed: readonly (RequiredLevel | undefined)[],
) {
  if (!connector) return;
  challengeForStepUp(settings.levels, settings, connector, caller, needed);
}

function stepUpTo(
  { settings }: Gateway,
  { connector, caller }: Access,
  scope: string,
): HttpError | undefined {
  const level = highestLevelIn(settings.levels, scope);
  if (!connector || !level) return undefined;
  if (authorize(settings.levels, caller, level) !== 'step-up') return undefined;
  const message = `the MCP server asks for the level ${level}: sign in again and allow it`;
  return insufficientScope(settings, connector, caller, { level, message });
}

function noteUse({ services }: Gateway, { mintedToken }: AuthenticatedCall): void {
  if (!mintedToken) return;
  void recordLastUse(services.store, mintedToken, services.now()).catch(() => undefined);
}
