// Enterprise-managed authorization (ID-JAG): exchanges a trusted issuer's assertion about a person for an access token (RFC 7523).
import { createHash } from 'node:crypto';
import {
  compactVerify,
  createRemoteJWKSet,
  customFetch,
  decodeJwt,
  decodeProtectedHeader,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { errors, type Provider, type TokenEndpointGrantContext } from 'oidc-provider';
import {
  type Account,
  accountIdOf,
  accountLifetime,
  isGrantValid,
  type AssertedIdentity,
  withAssertion,
} from '../../people/account.ts';
import { assertedLevel } from '../../people/step-up.ts';
import { withOwnEmail } from '../../people/domain-owner.ts';
import { findAccount, isGone, saveAssertedAccount } from '../../people/accounts.ts';
import { recordAudit } from '../../audit/audit.ts';
import { findClientRefusal } from '../../clients/clients.ts';
import { type Connector, isPaused, isUsable, redeemerOf } from '../../links/connector.ts';
import { acquireUse } from '../../links/connectors.ts';
import { createGrant } from '../../connections/create-grant.ts';
import {
  grantLifetimes,
  isActive,
  type Lifetimes,
  redemptionDeadline,
} from '../../connections/grant-lifetime.ts';
import type { ClientSnapshot, GrantRecord } from '../../connections/grant-record.ts';
import { endGrant, isGrantActive, updateGrant } from '../../connections/grants.ts';
import { localKeys, SIGNATURE_ALGORITHMS } from '../../keys/assertion-keys.ts';
import { isKeySetError } from '../../keys/remote-keys.ts';
import { highestLevelIn, type Level, levelsUpTo, lowest } from '../../permission-levels.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import type { ForwardProxy } from '../../settings/forward-proxy.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import { KEEP, type Store } from '../../store/store.ts';
import type { Settings } from '../../settings/settings.ts';
import { ENDPOINTS, JWT_BEARER } from '../metadata.ts';
import { dpopVerifier, requireLevelOfProof } from './dpop.ts';
import { engineRequest, noteAttempt } from './engine-request.ts';
import { invalidClientAuth, mapStoreErrors, temporarilyUnavailable } from './errors.ts';
import { checkHeader, type IdJag, idJagError, validateClaims } from './id-jag-validation.ts';
import {
  type AssertionContext,
  type AssertionParameters,
  type DescribeResource,
  issueAccessToken,
  type IssuedToken,
} from './issue-token.ts';
import { fetchFromProvider } from '../../sign-in/fetch.ts';
import { fetchFromIssuer } from '../../workloads/issuer-fetch.ts';
import { isKeptOut } from '../../connections/kept-out.ts';
import type { App } from '../../clients/rules.ts';
import { redirectDestination } from './redirect-uris.ts';
import type { ExchangeWorkload } from './workloads.ts';

type Context = TokenEndpointGrantContext<AssertionParameters>;
type IssuerWithKeys = { issuer: TrustedIssuer; isSigned: SignatureCheck };

/** Limits the fetches that made-up key ids cause. */
const KEYS_COOLDOWN_MS = 10_000;
const KEYS_TIMEOUT_MS = 5000;

/** Call once: the result caches the issuers' keys. It registers the grant type with a provider, if there are issuers. */
export function idJagGrantType(context: AssertionContext, exchangeWorkload?: ExchangeWorkload) {
  const { authorization, forwardProxy } = context.settings;
  const { trustedIssuers } = authorization;
  const issuers = trustedIssuers
    .filter(({ clients }) => clients.length > 0)
    .map((issuer) => ({ issuer, isSigned: signatureCheck(issuer, forwardProxy) }));
  const verifyProof = dpopVerifier({
    store: context.services.store,
    now: context.services.now,
    nonceKey: context.services.keys.dpopNonces,
    tokenEndpoint: context.settings.authUrl + ENDPOINTS.token,
  });
  return (provider: Provider, describeResource: DescribeResource): void => {
    if (trustedIssuers.length === 0) return;
    const exchange = mapStoreErrors(async (ctx: Context) => {
      const { assertion } = ctx.oidc.params;
      if (!assertion) throw new errors.InvalidRequest('missing required parameter: assertion');
      const isWorkload = engineRequest(ctx).workload !== undefined;
      if (!isWorkload) requireAuthentication(ctx);
      const proof = await verifyProof(ctx);
      if (isWorkload && exchangeWorkload) return exchangeWorkload(ctx, proof, describeResource);
      noteAttempt(ctx, {
        client: ctx.oidc.client.clientId,
        clientName: ctx.oidc.client.clientName,
      });
      const jag = await validateAssertion(context, issuers, ctx, assertion);
      await proof?.consume();
      const authorized = await authorize(context, ctx, jag);
      // No refresh token: the next assertion takes its place (draft section 4.4.3).
      const isIssued = await issueAccessToken(ctx, { ...authorized, describeResource, proof });
      if (!isIssued) throw idJagError('grant_ended');
    });
    provider.registerGrantType<AssertionParameters>(
      JWT_BEARER,
      exchange,
      ['assertion', 'scope', 'resource'],
      ['resource'],
    );
  };
}

/** A metadata document may offer no authentication, but a client that presents an assertion about a person has to authenticate. */
function requireAuthentication({ oidc: { client } }: Context): void {
  if (client.clientAuthMethod !== 'none') return;
  throw invalidClientAuth('a client must authenticate to present an assertion');
}

/** True if the issuer signed the assertion. Rejects with `temporarily_unavailable` if its keys cannot be fetched. */
type SignatureCheck = (assertion: string) => Promise<boolean>;

function signatureCheck(issuer: TrustedIssuer, forwardProxy: ForwardProxy): SignatureCheck {
  const { jwksUri, jwks, caFile, tokenFile } = issuer;
  const isOwn = caFile !== undefined || tokenFile !== undefined;

  const keys: JWTVerifyGetKey = jwksUri
    ? createRemoteJWKSet(new URL(jwksUri), {
        timeoutDuration: KEYS_TIMEOUT_MS,
        cooldownDuration: KEYS_COOLDOWN_MS,
        [customFetch]: isOwn ? (url, { signal }) => fetchOwn(url, signal) : fetchFromProvider,
      })
    : localKeys(jwks as JSONWebKeySet);
  // The address is in the settings, so it may be anywhere.
  const fetchOwn = async (url: string, signal: AbortSignal) =>
    Response.json(
      await fetchFromIssuer(url, { ...issuer, privateNetwork: true }, { forwardProxy, signal }),
    );
  return async function isSigned(assertion) {
    try {
      await compactVerify(assertion, keys, { algorithms: [...SIGNATURE_ALGORITHMS] });
      return true;
    } catch (error) {
      if (isKeySetError(error)) throw temporarilyUnavailable(error);
      return false;
    }
  };
}

async function validateAssertion(
  { settings: { authUrl, levels }, services: { now }, policy }: AssertionContext,
  issuers: readonly IssuerWithKeys[],
  { oidc }: Context,
  assertion: string,
): Promise<IdJag> {
  const { header, claims } = decode(assertion);
  const headerError = checkHeader(header);
  if (headerError) throw idJagError(headerError);
  const trusted = issuers.find(({ issuer }) => issuer.issuer === claims.iss);
  if (!trusted) throw idJagError('unknown_issuer');
  if (!(await trusted.isSigned(assertion))) throw idJagError('bad_signature');
  const jag = validateClaims(claims, {
    issuer: trusted.issuer,
    authUrl,
    resourceUrl: policy.resourceUrl,
    levels,
    clientId: oidc.client.clientId,
    resource: oidc.params.resource,
    now: now(),
  });
  if (typeof jag === 'string') throw idJagError(jag);
  return jag;
}

function decode(assertion: string) {
  try {
    return { header: decodeProtectedHeader(assertion), claims: decodeJwt(assertion) };
  } catch {
    throw idJagError('malformed');
  }
}

type Authorized = Pick<IssuedToken, 'grantId' | 'resource' | 'scopes' | 'gty'>;

/**
 * Checks everything before the first write, except that a person who lost a level loses it even if the request is refused. The assertion is
 * consumed last, so that a client may retry a failed request.
 */
async function authorize(context: AssertionContext, ctx: Context, jag: IdJag): Promise<Authorized> {
  const { policy, settings } = context;
  const { levels } = settings;
  const { store, keys, now } = context.services;
  const { client, params } = ctx.oidc;
  const usedKey = `assertion:${jag.person.issuer}\n${jag.id}`;
  const [connector, refusal, usedBefore] = await Promise.all([
    policy.refreshConnector(jag.connectorId),
    findRefusal(store, client.clientId, settings.clients),
    store.get(usedKey),
  ]);
  if (usedBefore) throw idJagError('replayed');
  if (refusal) throw idJagError(clientError(refusal));
  if (!connector) throw idJagError(jag.isParameter ? 'unknown_parameter' : 'unknown_resource');
  if (!isUsable(connector, now(), context.settings)) throw idJagError('connector_ended');
  const identity = {
    ...withOwnEmail(settings.identityProviders, jag.person, jag.person),
    id: accountIdOf(keys.accountIds, jag.person.issuer, jag.person.subject),
  };
  const { groups } = jag.person;
  noteAttempt(ctx, { account: identity.id, connector: connector.id, groups });
  if (await isKeptOut(store, identity.id, appOf(client))) throw idJagError('kept_out');
  const account = await entitledAccount(context, jag, identity, connector);
  const entitled = lowest(
    levels,
    connector.level,
    account.entitled,
    ...(jag.level ? [jag.level] : []),
  );
  const asserted = { issuer: jag.person.issuer, authentication: jag.authentication };
  const confirmed = assertedLevel(settings, asserted, entitled, now());
  if (confirmed === undefined) throw idJagError('step_up_required');
  const level = requireLevelOfProof(settings, ctx, confirmed);
  const { grantId, isNew } = await findOrCreateGrant(context, {
    account,
    connector,
    level,
    resource: jag.resource,
    client: clientSnapshot(client),
    app: appOf(client),
    assertion: [jag.person.issuer, jag.id, jag.issuedAt],
  });
  await saveAccount(context, identity);
  // A renewal is no attempt to connect.
  if (isNew) noteAttempt(ctx, { grantId });
  if (!(await store.add(usedKey, { at: Math.floor(now()) }, jag.expiresAt - now())))
    throw idJagError('replayed');
  const requested = highestLevelIn(levels, params.scope);
  return {
    grantId,
    resource: jag.resource,
    scopes: levelsUpTo(levels, requested ? lowest(levels, level, requested) : level),
    gty: JWT_BEARER,
  };
}

/** Clients of assertions are in the settings, so they never wait. */
async function findRefusal(store: Store, id: string, settings: Settings['clients']) {
  const refusal = await findClientRefusal(store, id, settings);
  return refusal?.state === 'waiting' ? undefined : refusal;
}

function clientError({ state }: { state: string }): 'client_blocked' | 'client_revoked' {
  return state === 'blocked' ? 'client_blocked' : 'client_revoked';
}

function clientSnapshot({ clientId, clientName, redirectUris }: Context['oidc']['client']) {
  const [redirectUri] = redirectUris ?? [];
  return {
    id: clientId,
    name: clientName ?? clientId,
    redirectHost: redirectUri === undefined ? '' : redirectDestination(redirectUri),
  };
}

function appOf({ clientId, clientName, redirectUris = [] }: Context['oidc']['client']) {
  return { id: clientId, name: clientName ?? clientId, redirectUris };
}

type IdentityWithId = AssertedIdentity & { id: string };

/**
 * Returns the account with the asserted identity and the level that it may have through the connector. If it may have none, what the issuer
 * says about a known person is saved, because earlier access tokens depend on it.
 */
async function entitledAccount(
  context: AssertionContext,
  { issuedAt }: IdJag,
  identity: IdentityWithId,
  connector: Connector,
): Promise<Account & { entitled: Level }> {
  const { services, policy } = context;
  const { store, now } = services;
  const known = await findAccount(store, identity.id);
  if (known && !isGrantValid(known, issuedAt)) throw idJagError('account_disabled');
  const account = withAssertion(known, identity, now());
  const access = policy.accessOf(account, connector, 'id-jag');
  if (access.refusal) {
    if (known && !isGone(known)) await saveAccount(context, identity);
    throw idJagError('not_entitled');
  }
  return { ...account, entitled: access.level };
}

async function saveAccount(
  { settings, services: { store, now }, policy }: AssertionContext,
  identity: IdentityWithId,
): Promise<void> {
  const account = await saveAssertedAccount(store, identity, {
    now: now(),
    ttl: accountLifetime(settings),
  });
  // The token is issued by the stored account, which an administrator may have changed meanwhile.
  await policy.refreshAccount(account.id);
}

type GrantRequest = {
  account: Account;
  client: ClientSnapshot & { id: string };
  app: App & { id: string };
  connector: Connector;
  resource: string;
  level: Level;
  /** Identifies the assertion. */
  assertion: readonly (string | number)[];
};

/** Renews the active grant, or creates one and reserves a use. Returns its id. Rejects if no use is left or the client was revoked. */
async function findOrCreateGrant(
  context: AssertionContext,
  request: GrantRequest,
): Promise<{ grantId: string; isNew: boolean }> {
  const { store, now } = context.services;
  const lifetimes = grantLifetimes(context.settings.lifetimes);
  const { account, client, connector, level } = request;
  const key = { account: account.id, client: client.id, connector: connector.id, level };
  const moment = now();
  // Leaves the last access token its full lifetime.
  const lastMoment = moment + lifetimes.accessToken;
  const renewed = await renewIdJagGrant(
    store,
    key,
    ({ createdAt, grant }) => isGrantValid(account, createdAt) && grant.exp > lastMoment,
    { lifetimes, now: moment },
  );
  return renewed === undefined
    ? { grantId: await createIdJagGrant(context, key, request), isNew: true }
    : { grantId: renewed, isNew: false };
}

async function createIdJagGrant(
  context: AssertionContext,
  key: IdJagGrantKey,
  { account, client, app, connector, resource, level, assertion }: GrantRequest,
): Promise<string> {
  const { settings, services, uses } = context;
  const { store, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const grantLifetime = settings.lifetimes.refreshTokenAbsolute;
  const grantId = idJagGrantId(key, assertion);
  if (isPaused(connector, settings)) throw idJagError('connector_paused');
  const holder = redeemerOf(account.id, client.id);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  const isActive = (id: string) => isGrantActive(store, id, lifetimes, now());
  if (!(await acquireUse(store, connector.id, reservation, { now: now(), isActive })))
    throw idJagError('used_up');
  const scopes = levelsUpTo(settings.levels, level);
  // No page names the claims, so the settings decide alone.
  const { caller } = findUpstream(settings.upstreams, connector) ?? {};
  const grant = {
    account,
    client,
    connector,
    resource,
    scopes,
    vouchedAt: now(),
    ...(caller ? { callerClaims: caller.claims } : {}),
  };
  const isNew = await createGrant({ store, now, lifetimes, grantLifetime }, grantId, grant);
  // A concurrent revocation or block of the client may have listed its grants before this grant existed.
  const refusal = await findRefusal(store, client.id, settings.clients);
  if (refusal) {
    await endGrant(store, grantId, clientError(refusal), now());
    throw idJagError(clientError(refusal));
  }
  if (await isKeptOut(store, account.id, app)) {
    await endGrant(store, grantId, 'revoked_by_administrator', now());
    throw idJagError('kept_out');
  }
  await setCurrentGrant(store, key, grantId, grantLifetime);
  if (!isNew) return grantId;
  uses.record(connector.id, { holder, grantId });
  // There is no consent, so this is the only audit event of the grant.
  await recordAudit(services, {
    event: 'grant_vouched',
    account: account.id,
    clientId: client.id,
    connector: connector.id,
    grantId,
    arguments: { level, client: client.name },
    outcome: 'granted',
  });
  return grantId;
}

/** Each key has one current grant. The level is part of it, so that an assertion cannot raise a level that the person lowered. */
type IdJagGrantKey = { account: string; client: string; connector: string; level: Level };

type Pointer = { grantId: string };

function currentGrantKey({ account, client, connector, level }: IdJagGrantKey): string {
  return `vouched-grant:${connector} ${account} ${level} ${client}`;
}

/** `lifetime` in seconds. */
async function setCurrentGrant(
  store: Store,
  key: IdJagGrantKey,
  grantId: string,
  lifetime: number,
): Promise<void> {
  await store.set<Pointer>(currentGrantKey(key), { grantId }, lifetime);
}

/** Renews the current grant and returns its id. Undefined if there is none, or it is not active or not `isRenewable`. */
async function renewIdJagGrant(
  store: Store,
  key: IdJagGrantKey,
  isRenewable: (record: GrantRecord) => boolean,
  { lifetimes, now }: { lifetimes: Lifetimes; now: number },
): Promise<string | undefined> {
  const grantId = (await store.get<Pointer>(currentGrantKey(key)))?.value.grantId;
  if (grantId === undefined) return undefined;
  let renewed = false;
  const renew = (record: GrantRecord) => {
    renewed = isActive(record, lifetimes, now) && isRenewable(record);
    return renewed ? { ...record, vouchedAt: now } : KEEP;
  };
  const after = await updateGrant(store, grantId, renew, { lifetimes, now });
  return after && renewed ? grantId : undefined;
}

/** The same id for the same assertion, so that a client which retries after a lost response creates one grant. */
function idJagGrantId(key: IdJagGrantKey, assertion: readonly (string | number)[]): string {
  const digest = createHash('sha256').update(JSON.stringify([currentGrantKey(key), ...assertion]));
  return digest.digest('base64url').slice(0, 27);
}
