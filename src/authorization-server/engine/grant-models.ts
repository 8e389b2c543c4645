// The engine's models that are stored in the grant record: grants, codes, refresh tokens, revoked access tokens. Redeems codes and refresh tokens
// (RFC 6749 sections 4.1.3 and 6).
import type { KeyObject } from 'node:crypto';
import {
  type Adapter,
  type AdapterPayload,
  errors,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider';
import { consumeProof } from '../../dpop/proof.ts';
import type { DpopSettings } from '../../dpop/required-levels.ts';
import { type Lifetimes, refreshExpiry } from '../../grants/grant-lifetime.ts';
import {
  allowsLevel,
  classifyRefreshToken,
  type EnginePayload,
  grantedLevel,
  type GrantRecord,
  isLive,
  narrowed,
  type PresentedToken,
  revokeAccessToken,
  rotate,
  withRefusal,
} from '../../grants/grant-record.ts';
import {
  announceGrant,
  endGrant,
  findGrant,
  findStoredGrant,
  grantKey,
  type FoundGrant,
  updateGrant,
} from '../../grants/grants.ts';
import {
  createOpaqueToken,
  hasValidMac,
  parseOpaqueToken,
  type Part,
} from '../../grants/opaque-token.ts';
import type { Reason } from '../../grants/reasons.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { DEVICE_CODE } from '../../clients/clients.ts';
import { JWT_BEARER } from '../metadata.ts';
import type { Level } from '../../permission-levels.ts';
import {
  addDevice,
  decideDevice,
  deviceIdOf,
  findDevice,
  isWaiting,
  recordPoll,
  type WaitingDevice,
} from './device-codes.ts';
import { consumeAssertion } from './client-keys.ts';
import { levelOfProof, presentedProof, proofReused, requireBoundKey } from './dpop.ts';
import {
  currentRequest,
  type EngineRequest,
  engineRequest,
  finishBeforeResponse,
  readAhead,
  requireContext,
} from './engine-request.ts';
import { invalidGrant, mapStoreErrors, reasonIn, temporarilyUnavailable } from './errors.ts';
import { comparedRedirectUri, presentedJwt } from './extensions.ts';

export type GrantModelOptions = {
  store: Store;
  settings: DpopSettings;
  /** `[0]` signs codes and refresh tokens; all verify. */
  tokenKeys: readonly KeyObject[];
  lifetimes: Lifetimes;
  now: () => number;
  /** Validates `resource` and `scope` of a token request against the grant. Rejects before anything is consumed. */
  validateTokenRequest: (ctx: KoaContextWithOIDC, granted: EnginePayload) => Promise<void>;
  /** Asks the identity provider about the person of a refresh token again, if that is due. */
  recheckPerson: (granted: EnginePayload) => Promise<void>;
  /** Returns the claims of a valid access token of ours. */
  verifyAccessToken: (jwt: string) => Promise<AccessTokenClaims | undefined>;
  /** Called once per approval, when its code is stored. If it rejects, the app gets no code. */
  onApproved: (grantId: string, record: GrantRecord) => Promise<void>;
  /** Called once per exchanged code. Must not block. */
  onExchanged: (grantId: string, record: GrantRecord) => void;
  /** Called after `onExchanged` if the request lacked the DPoP proof that the approved level needs. */
  onLowered: (grantId: string, record: GrantRecord) => void;
  onRefreshed: (grantId: string, record: GrantRecord) => Promise<void>;
  /** Called once per ended grant. */
  onEnded: (grantId: string, record: GrantRecord, reason: Reason) => Promise<void>;
};

/** Named as the engine names them. */
export type AccessTokenClaims = {
  jti: string;
  iat: number;
  exp: number;
  accountId: string;
  clientId: string;
  grantId: string;
  aud: string;
  scope: string;
  /** Thumbprint of the key that it is bound to (RFC 9449 section 6.1). */
  jkt?: string;
};

export type GrantModels = {
  models: Record<string, Partial<Adapter>>;
  /** Returns the value of the code or refresh token that is about to be saved. Needs a grant that the same request has read. */
  createTokenValue: (kind: 'AuthorizationCode' | 'RefreshToken', grantId: string) => string;
  /** Consumes the code that a token request exchanged. Call it when the engine has made the response, which is sent only after it resolves. */
  redeem: (ctx: KoaContextWithOIDC) => Promise<void>;
};

export function grantModels(options: GrantModelOptions): GrantModels {
  const records = requestGrants(options);
  return {
    models: {
      Grant: grantModel(records),
      AuthorizationCode: codeModel(options, records),
      RefreshToken: refreshTokenModel(options, records),
      DeviceCode: deviceCodeModel(options, records),
      AccessToken: accessTokenModel(options, records),
      ReplayDetection: replayModel(options),
    },
    redeem: mapStoreErrors((ctx: KoaContextWithOIDC) => redeem(options, records, ctx)),
    createTokenValue(kind, grantId) {
      const record = records.seen(grantId)?.value;
      if (!record) throw new Error('the grant of the token has not been read');
      const part: Part = kind === 'AuthorizationCode' ? 'code' : (record.refresh?.generation ?? 0);
      return createOpaqueToken(options.tokenKeys, grantId, part, record.seed);
    },
  };
}

/** The consent step writes the grant, so the engine never saves one. */
function grantModel({ load, end }: RequestGrants): Partial<Adapter> {
  return {
    async find(id) {
      return (await load(id))?.value.grant;
    },
    async destroy(id) {
      await end(id, requestEndReason());
    },
  };
}

/** The engine's AuthorizationCode model. `consume` only plans the write of `redeem`, so that a client may retry a failed exchange. */
export function codeModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { lifetimes, now } = options;
  return {
    async upsert(_id, { jti: _jti, ...payload }) {
      const { recorded } = await attachCode(
        options,
        records,
        payload as EnginePayload & { exp: number },
      );
      await finishBeforeResponse(recorded);
    },
    async find(id) {
      const ctx = requireContext();
      const hit = await records.resolve(id, 'code');
      const code = hit && limitToProof(options, ctx, hit.record).code;
      if (!code) return undefined;
      await requireBoundKey(ctx, 'authorization code', code.payload.dpopJkt);
      const { params } = ctx.oidc;
      if (params)
        params.redirect_uri = comparedRedirectUri(params.redirect_uri, code.payload.redirectUri);
      // Within the grace this is the same request sent twice: `consume` rejects it and nothing else happens.
      const replayed = code.usedAt !== undefined && now() - code.usedAt > lifetimes.codeGrace;
      const moment = Math.floor(now());
      // An expired code that is replayed must end the grant, so it must not look expired to the engine.
      return {
        ...code.payload,
        jti: id,
        ...(replayed ? { consumed: moment, exp: moment + 1 } : {}),
      };
    },
    async consume(id) {
      await planRedemption(options, records, grantIdOf(id));
    },
  };
}

/**
 * Adds the code to the grant of an approval, and notes the approval for the page that shows the decision. The code must not get out before
 * `recorded` resolves. Rejects with `access_denied` if the grant has ended.
 */
async function attachCode(
  { onApproved }: GrantModelOptions,
  records: RequestGrants,
  issued: EnginePayload & { exp: number },
): Promise<{ recorded: Promise<void> | undefined }> {
  const grantId = String(issued.grantId);
  let isFirst = false;
  const after = await records.change(grantId, (record) => {
    isFirst = !record.code;
    return isFirst ? { ...record, code: { payload: withinGrant(record, issued) } } : KEEP;
  });
  if (!after) throw new errors.AccessDenied('the connection was ended');
  const recorded = isFirst ? onApproved(grantId, after.value) : undefined;
  const request = currentRequest();
  if (request) {
    const { client, connector } = after.value;
    const level = grantedLevel(after.value);
    request.approval = { level, client: client.name, connector };
  }
  return { recorded };
}

/** Validates the request, so that a refused one consumes nothing. */
async function planRedemption(
  options: GrantModelOptions,
  records: RequestGrants,
  grantId: string,
): Promise<void> {
  const ctx = requireContext();
  const payload = (await records.load(grantId))?.value.code?.payload;
  if (!payload) throw invalidGrant('the authorization code is unknown');
  await options.validateTokenRequest(ctx, payload);
  engineRequest(ctx).redemption = { grantId };
}

/** Consumes the code of a successful response and stores the first refresh token, in one write and for exactly one caller. */
async function redeem(
  options: GrantModelOptions,
  records: RequestGrants,
  ctx: KoaContextWithOIDC,
): Promise<void> {
  const request = engineRequest(ctx);
  if (!request.redemption || ctx.status !== 200) return;
  const { now, onExchanged, onLowered } = options;
  const { grantId, refresh } = request.redemption;
  let first = false;
  let approved: Level | undefined;
  const consume = (record: GrantRecord): GrantRecord | typeof KEEP => {
    approved = grantedLevel(record);
    const { code, ...rest } = limitToProof(options, ctx, record);
    first = code !== undefined && code.usedAt === undefined;
    if (!first || !code) return KEEP;
    // The person reduced the grant since the code was read. A retry gets the reduced scope.
    if (refresh && code.payload.scope !== refresh.scope)
      throw temporarilyUnavailable(new Error('the grant was changed concurrently'));
    return {
      ...rest,
      code: { ...code, usedAt: now() },
      ...(refresh ? { refresh: { payload: refresh, generation: 0, turns: [] } } : {}),
    };
  };
  const after = await records.change(grantId, consume, request);
  if (!after || !first) throw invalidGrant('the authorization code was already used');
  onExchanged(grantId, after.value);
  if (grantedLevel(after.value) !== approved) onLowered(grantId, after.value);
}

const DENIED = { error: 'access_denied', errorDescription: 'the person denied the connection' };

/**
 * The engine's DeviceCode model (RFC 8628). Until the decision, the device has a record of its own, which `find` knows by the device code in
 * token requests and by its name elsewhere. The approval adds a code to its grant, which is then redeemed as one of an app in a browser. The
 * decision is the last write, so that the person may enter the code again if another one fails.
 */
function deviceCodeModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { store, now } = options;
  return {
    async upsert(id, { jti: _jti, ...payload }) {
      if (requireContext().oidc.route === 'device_authorization') {
        const isNew = await addDevice(
          store,
          deviceIdOf(id),
          payload as WaitingDevice['payload'],
          now(),
        );
        if (!isNew) throw temporarilyUnavailable(new Error('the user code is taken'));
        return;
      }
      const { error, userCode: _code, params: _params, ...code } = payload;
      // Other errors do not concern the device: the person may enter its code again.
      if (error !== undefined) {
        if (error === DENIED.error) await decideDevice(store, id, 'denied', now());
        return;
      }
      const grantId = String(payload.grantId);
      await approveDevice(options, records, id, {
        ...code,
        grantId,
        // The account counts from the approval, not from when the device asked.
        iat: Math.floor(now()),
        exp: Number(payload.exp),
      });
    },
    async find(id) {
      const ctx = requireContext();
      if (ctx.oidc.route !== 'token') {
        const device = await findDevice(store, id);
        return device && { ...device.payload, jti: id, ...(device.decision ? DENIED : {}) };
      }
      const deviceId = deviceIdOf(id);
      const device = await findDevice(store, deviceId);
      if (!device) return undefined;
      const waiting = { ...device.payload, jti: id };
      // The engine rejects another client and an expired code.
      if (ctx.oidc.client?.clientId !== device.payload.clientId) return waiting;
      if (device.decision === 'denied') return { ...waiting, ...DENIED };
      if (device.decision) return approvedCode(options, records, id, waiting, device.decision);
      if (isWaiting(device, now()) && !(await recordPoll(store, deviceId, now())))
        throw new errors.SlowDown('wait five seconds longer between requests');
      return waiting;
    },
    async consume(id) {
      const decision = (await findDevice(store, deviceIdOf(id)))?.decision;
      // After a denial, `find` has returned the error that the engine responds with.
      if (decision === 'denied' || (decision && !(await records.load(decision.grantId)))) return;
      if (!decision) throw invalidGrant('the device code is unknown');
      await planRedemption(options, records, decision.grantId);
    },
  };
}

async function approveDevice(
  options: GrantModelOptions,
  records: RequestGrants,
  deviceId: string,
  code: EnginePayload & { grantId: string; exp: number },
): Promise<void> {
  const { store, now } = options;
  const { grantId } = code;
  const decide = () => decideDevice(store, deviceId, { grantId }, now());
  try {
    const { recorded } = await attachCode(options, records, code);
    await recorded;
  } catch (error) {
    // The person has denied it meanwhile: the device learns that from the grant.
    if (error instanceof errors.AccessDenied) await decide();
    throw error;
  }
  if (await decide()) return;
  await records.end(grantId, 'never_used');
  throw new errors.AccessDenied('the device code has expired or was already used');
}

/** The code in the grant of a device, or why there is none. */
async function approvedCode(
  options: GrantModelOptions,
  records: RequestGrants,
  id: string,
  waiting: AdapterPayload,
  { grantId }: { grantId: string },
): Promise<AdapterPayload | undefined> {
  const { store, now, lifetimes } = options;
  const record = (await records.load(grantId))?.value;
  if (!record) {
    // The person denied or ended the connection before the device asked again.
    const ended = await findStoredGrant(store, grantId);
    const isUnused = ended && !isLive(ended) && ended.lastUsedAt === undefined;
    return isUnused ? { ...waiting, ...DENIED } : undefined;
  }
  const { code, refresh } = limitToProof(options, requireContext(), record);
  // The approval is being written, or the grant was refreshed since the code was used.
  if (!code) return refresh ? undefined : waiting;
  const moment = now();
  const replayed = code.usedAt !== undefined && moment - code.usedAt > lifetimes.codeGrace;
  const used = { consumed: Math.floor(moment), exp: Math.floor(moment) + 1 };
  return { ...code.payload, jti: id, ...(replayed ? used : {}) };
}

/**
 * Lowers the level of an approval to what a request without DPoP can have, so that pages and lists show what the client got, and why. The
 * client cannot raise it later.
 */
function limitToProof(
  { settings, now }: Pick<GrantModelOptions, 'settings' | 'now'>,
  ctx: KoaContextWithOIDC,
  record: GrantRecord,
): GrantRecord {
  const granted = grantedLevel(record);
  const level = granted === undefined ? undefined : levelOfProof(settings, ctx, granted);
  if (level === undefined || level === granted) return record;
  const limited = narrowed(settings.levels, record, { level, stays: true }) ?? record;
  return withRefusal(limited, 'dpop_required', now()) ?? limited;
}

/** Limits the code's scope to the grant, which the person may have reduced since the engine read it. */
function withinGrant<Issued extends EnginePayload>(
  { grant }: GrantRecord,
  payload: Issued,
): Issued {
  const granted = (grant.openid?.scope ?? '').split(' ');
  const scopes = String(payload.scope ?? '').split(' ');
  return { ...payload, scope: scopes.filter((scope) => granted.includes(scope)).join(' ') };
}

/**
 * The engine's `ReplayDetection` model. Exactly one of concurrent requests with an assertion or a proof passes. `find` returns nothing, so that
 * the engine always calls `upsert`: first for the assertion of the client, as the last step of its authentication, later for the DPoP proof. The
 * engine's id of a proof depends on the client; ours is the same for every grant type.
 */
function replayModel({ store }: GrantModelOptions): Partial<Adapter> {
  return {
    async upsert(_id, _payload, expiresIn = 0) {
      const ctx = requireContext();
      const request = engineRequest(ctx);
      if (ctx.oidc.client?.clientAuthMethod === 'private_key_jwt' && !request.assertionUsed) {
        await consumeAssertion(store, ctx, expiresIn);
        request.assertionUsed = true;
        return;
      }
      const proof = await presentedProof(ctx);
      if (!proof) throw new Error('the engine used ReplayDetection for something unknown');
      if (!(await consumeProof(store, proof))) throw proofReused();
    },
  };
}

/** The engine's RefreshToken model. */
function refreshTokenModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { lifetimes, now, validateTokenRequest, recheckPerson, onRefreshed } = options;
  return {
    /** Plans the first generation, which `redeem` writes. `consume` makes later ones. */
    async upsert(_id, { jti: _jti, exp: _exp, ...payload }) {
      const ctx = requireContext();
      if (ctx.oidc.entities.RotatedRefreshToken) return;
      const { redemption } = engineRequest(ctx);
      if (!redemption) throw new Error('the engine saved a refresh token that was not expected');
      redemption.refresh = payload as EnginePayload & { iat: number };
    },
    async find(id) {
      const hit = await records.resolve(id, 'refresh token');
      const refresh = hit?.record.refresh;
      if (!hit || !refresh) return undefined;
      const ctx = requireContext();
      const isOwn = ctx.oidc.client?.clientId === refresh.payload.clientId;
      const replayed =
        classifyRefreshToken(refresh, Number(hit.name.part), now(), lifetimes.refreshGrace) ===
        'replay';
      if (isOwn && ctx.oidc.route === 'token') {
        await requireBoundKey(ctx, 'refresh token', refresh.payload.jkt);
        const validate = async () => {
          if (!replayed) await recheckPerson(refresh.payload);
          await validateTokenRequest(ctx, refresh.payload);
        };
        await validate().catch(async (error: unknown) => {
          await recordRefusal(options, records, hit.name.grantId, reasonIn(error));
          throw error;
        });
      }
      return {
        ...refresh.payload,
        jti: id,
        rotations: refresh.generation,
        exp: refreshExpiry(hit.record, lifetimes.refreshIdle),
        ...(replayed ? { consumed: Math.floor(now()) } : {}),
      };
    },
    /** Rotates before the engine generates the successor, so that its value always matches the record. */
    async consume(id) {
      const grantId = grantIdOf(id);
      const presented = Number(parseOpaqueToken(id)?.part);
      let token: PresentedToken | undefined;
      const after = await records.change(grantId, (record) => {
        if (!record.refresh) return KEEP;
        const moment = now();
        token = classifyRefreshToken(record.refresh, presented, moment, lifetimes.refreshGrace);
        if (token === 'repeat' || token === 'replay') return KEEP;
        return rotate(record, record.refresh, presented, moment, lifetimes.refreshGrace);
      });
      // A concurrent request rotated it between `find` and here.
      if (after && isReplay(token)) await records.end(grantId, 'refresh_replay');
      // Undefined if the person has removed the refresh token from the grant.
      if (!after || token === undefined || isReplay(token))
        throw invalidGrant('the refresh token is no longer valid; connect again');
      await onRefreshed(grantId, after.value);
    },
    async destroy(id) {
      await records.end(grantIdOf(id), requestEndReason());
    },
  };
}

/**
 * Keeps the reason in the grant, so that it is known later. Errors of the client itself have no reason, so that bad input causes no write. Store
 * errors are ignored.
 */
async function recordRefusal(
  { now }: GrantModelOptions,
  records: RequestGrants,
  grantId: string,
  reason: Reason | undefined,
): Promise<void> {
  if (!reason) return;
  const noted = records.change(grantId, (record) => withRefusal(record, reason, now()) ?? KEEP);
  await noted.catch(() => undefined);
}

/** A function, because TypeScript takes a variable that a callback assigns for unassigned. */
function isReplay(token: PresentedToken | undefined): boolean {
  return token === 'replay';
}

/** Access tokens are JWTs and not stored. The grant record lists the revoked ones (RFC 7009). */
function accessTokenModel(options: GrantModelOptions, records: RequestGrants): Partial<Adapter> {
  const { store, settings, now, verifyAccessToken } = options;
  return {
    async find(value) {
      const jwt = presentedJwt(value);
      const claims = jwt === undefined ? undefined : await verifyAccessToken(jwt);
      const record = claims && (await records.load(claims.grantId))?.value;
      if (!record || record.revoked?.[claims.jti] !== undefined) return undefined;
      if (claims.scope === undefined || !allowsLevel(settings.levels, record, claims.scope))
        return undefined;
      const gty = record.vouchedAt === undefined ? {} : { gty: JWT_BEARER };
      return { kind: 'AccessToken', format: 'opaque', ...claims, ...gty, extra: {} };
    },
    async destroy(jti) {
      const token = requireContext().oidc.entities.AccessToken;
      const grantId = token?.grantId;
      if (!token || !grantId) return;
      let tooMany = false;
      await records.change(grantId, (record) => {
        const after = revokeAccessToken(record, jti, token.exp ?? now(), now());
        tooMany = after === undefined;
        return after ?? KEEP;
      });
      if (tooMany) await records.end(grantId, 'many_tokens_revoked');
      else await announceGrant(store, grantId);
    },
  };
}

type RequestGrants = ReturnType<typeof requestGrants>;

/** Reads the record once per engine request, in which the engine finds the token, then its grant, then changes it. */
function requestGrants({ store, tokenKeys, lifetimes, now, onEnded }: GrantModelOptions) {
  const remember = (
    request: EngineRequest | undefined,
    id: string,
    found: FoundGrant | undefined,
  ) => {
    if (request) request.grant = { id, found };
    return found;
  };
  const remembered = (request: EngineRequest | undefined, id: string) =>
    request?.grant?.id === id ? request.grant : undefined;
  const seen = (id: string) => remembered(currentRequest(), id)?.found;
  const load = async (id: string) =>
    seen(id) ??
    remember(currentRequest(), id, await readAhead(grantKey(id), () => findGrant(store, id)));
  return {
    seen,
    load,
    async change(
      id: string,
      next: (record: GrantRecord) => GrantRecord | typeof KEEP,
      request = currentRequest(),
    ) {
      const seenBefore = remembered(request, id)?.found;
      const options = { lifetimes, now: now(), ...(seenBefore ? { seen: seenBefore } : {}) };
      return remember(request, id, await updateGrant(store, id, next, options));
    },
    async end(id: string, reason: Reason) {
      // The engine destroys a token and then its grant, which are one record here.
      const request = currentRequest();
      const known = remembered(request, id);
      if (known && !known.found) return;
      const ended = await endGrant(store, id, reason, now());
      remember(request, id, undefined);
      if (ended) await Promise.all([announceGrant(store, id), onEnded(id, ended, reason)]);
    },
    /** Finds the record of a presented code or refresh token with a valid MAC. */
    async resolve(value: string, kind: 'code' | 'refresh token') {
      const name = parseOpaqueToken(value);
      if (!name || (name.part === 'code') !== (kind === 'code')) return undefined;
      const found = await load(name.grantId);
      return found && hasValidMac(tokenKeys, name, found.value.seed)
        ? { name, record: found.value }
        : undefined;
    },
  };
}

/** The reason why the engine ends a grant, derived from the request. */
function requestEndReason(): Reason {
  const { route, params } = Provider.ctx?.oidc ?? {};
  if (route === 'revocation') return 'revoked_by_client';
  const isCode = params?.grant_type === 'authorization_code' || params?.grant_type === DEVICE_CODE;
  return isCode ? 'code_replay' : 'refresh_replay';
}

function grantIdOf(value: string): string {
  const name = parseOpaqueToken(value);
  if (!name) throw invalidGrant('not one of our tokens');
  return name.grantId;
}
