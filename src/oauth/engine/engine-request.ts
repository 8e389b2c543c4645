// What the hooks of one request to the engine share. The engine calls them one after the other, without a value to pass on.
import type Koa from 'koa';
import { type AdapterPayload, type KoaContextWithOIDC, Provider } from 'oidc-provider';
import type { Connector } from '../../links/connector.ts';
import type { EnginePayload } from '../../connections/grant-record.ts';
import type { FoundGrant } from '../../connections/grants.ts';
import type { AttemptNote } from '../../connections/attempts.ts';
import { type RequestContext, requestContext } from '../../http/request-context.ts';
import type { RefusedPerson } from '../../connections/refusals.ts';
import type { Level } from '../../permission-levels.ts';
import type { RefusalDetails, WorkloadErrorCode } from '../../workloads/validation.ts';

/** A person's decision, or the code of the error that prevented it. */
export type DeviceOutcome = 'approved' | 'denied' | { error: string };

/** Of a JWT that its issuer signed. */
export type WorkloadRefusal = {
  reason: WorkloadErrorCode;
  issuerId: string;
  subject: string;
  /** Of the rules that did not match, or matched but give nothing. */
  details: RefusalDetails;
  resource?: string | undefined;
};

export type EngineRequest = {
  /** Reads that the engine will need, by store key. Started together, they share a round trip. */
  reads: Map<string, Promise<unknown>>;
  /** Writes that the response waits for, but no later step. Several share one round trip or one transaction. */
  writes: Promise<unknown>[];
  /** The grant that was last read or written. */
  grant?: { id: string; found: FoundGrant | undefined };
  /** The session as the request has read it. */
  session?: { id: string; payload: AdapterPayload };
  /** The connector that an authorization request has read. */
  connector?: Connector;
  /** The code that this token request exchanges. It is consumed in one write, with `refresh`, after the engine has made the response. */
  redemption?: { grantId: string; refresh?: EnginePayload & { iat: number } };
  /** The assertion that authenticates the client is marked as used. */
  assertionUsed?: true;
  /** Set for a token request with the JWT of a workload: the client that it named, and who it is at its platform once it gets a token. */
  workload?: { clientId: string | undefined; subject?: string; refusal?: WorkloadRefusal };
  /** `grant_type` of a token request. */
  grantType?: unknown;
  /** What is noted of the attempt of this request. `id` is that of the whole authorization. */
  attempt?: { id?: string | undefined } & Omit<AttemptNote, 'at'>;
  /** The client id of a token request that is not known. */
  unknownClient?: string;
  /** Called beside the write of a registered client. */
  onRegistered?: () => void;
  /** What a registration sent that was refused for its redirect URIs. */
  refusedRegistration?: { name: unknown; redirectUris: unknown };
  /** Why nobody can connect through the connector, and who tried. */
  refusal?: RefusedPerson;
  /** Key of the texts of the error page that the engine rendered. */
  errorPage?: string;
  /** The approval whose code this request stored: the level, the client's name as the person saw it, and the connector's id. */
  approval?: { level: Level | undefined; client: string; connector: string };
  /** What the engine's endpoint for decisions about devices (RFC 8628) resulted in. */
  deviceOutcome?: DeviceOutcome;
};

/** The object of a request, which begins with the first step that needs it. */
export function engineRequest(ctx: Pick<Koa.Context, 'state'>): EngineRequest {
  const context = requestContext(ctx) as RequestContext & { engine?: EngineRequest };
  context.engine ??= { reads: new Map(), writes: [] };
  return context.engine;
}

/** The request that the engine is serving. Pages read the engine's records outside of any. */
export function currentRequest(): EngineRequest | undefined {
  const ctx = Provider.ctx;
  return ctx && engineRequest(ctx);
}

export function requireContext(): KoaContextWithOIDC {
  const ctx = Provider.ctx;
  if (!ctx) throw new Error('the engine used a token outside a request');
  return ctx;
}

/** Starts a read. An error is reported to the step that needs the result. */
export function startReading(
  { reads }: EngineRequest,
  key: string,
  read: () => Promise<unknown>,
): void {
  const reading = read();
  reading.catch(() => undefined);
  reads.set(key, reading);
}

/** Returns what `startReading` read for the same key, once: a second call reads anew. */
export function readAhead<T>(key: string, read: () => Promise<T>): Promise<T> {
  const reads = currentRequest()?.reads;
  const reading = reads?.get(key) as Promise<T> | undefined;
  reads?.delete(key);
  return reading ?? read();
}

/** In a request of the engine, resolves at once and leaves the write to `finishWrites`. Elsewhere, resolves when it is done. */
export async function finishBeforeResponse(write: Promise<unknown> | void): Promise<void> {
  const request = currentRequest();
  if (!request || !write) return void (await write);
  write.catch(() => undefined);
  request.writes.push(write);
}

/** Waits for the writes of the request. Rejects if one of them failed, without a redirect that could carry a code. */
export async function finishWrites(ctx: Koa.Context): Promise<void> {
  try {
    await Promise.all(engineRequest(ctx).writes);
  } catch (error) {
    ctx.remove('Location');
    throw error;
  }
}

/** Adds to what is noted of the attempt. */
export function noteAttempt(
  ctx: Pick<Koa.Context, 'state'>,
  note: NonNullable<EngineRequest['attempt']>,
): void {
  const request = engineRequest(ctx);
  const known = Object.entries(note).filter(([, value]) => value !== undefined);
  request.attempt = { ...request.attempt, ...Object.fromEntries(known) };
}
