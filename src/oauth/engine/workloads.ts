// Access tokens for workloads, by the JWT of their platform (RFC 7523 section 2.1; MCP extension workload-identity-federation).
import { decodeProtectedHeader } from 'jose';
import type Koa from 'koa';
import { errors, type TokenEndpointGrantContext } from 'oidc-provider';
import { recordAudit } from '../../audit/audit.ts';
import { endConnection } from '../../connections/connections.ts';
import { createGrant, newGrantId } from '../../connections/create-grant.ts';
import { grantLifetimes, isActive, redemptionDeadline } from '../../connections/grant-lifetime.ts';
import { grantedLevel } from '../../connections/grant-record.ts';
import { findGrant, isGrantActive } from '../../connections/grants.ts';
import { connectLink, connectorIdOf } from '../../links/connect-link.ts';
import { isPaused, redeemerOf } from '../../links/connector.ts';
import { acquireUse } from '../../links/connectors.ts';
import { highestLevelIn, levelsUpTo, lowest } from '../../permission-levels.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { writeRate } from '../../settings/limits.ts';
import { idOfSubject } from '../../settings/workloads.ts';
import {
  type FoundRule,
  matchingRule,
  refusalOfRule,
  rulesAbout,
} from '../../workloads/find-rule.ts';
import { KeysUnavailable } from '../../workloads/issuer-keys.ts';
import { updateWorkloadRecord, withSubject } from '../../workloads/records.ts';
import {
  type Claims,
  ID_JAG_TYPE,
  MAX_CLOCK_SKEW_SECONDS,
  typeOf,
  WORKLOAD_ERRORS,
  WorkloadRefused,
} from '../../workloads/validation.ts';
import { issuersOfWorkloads, usedAssertionKey, verifyWorkload } from '../../workloads/verify.ts';
import { JWT_BEARER } from '../metadata.ts';
import { requireLevelOfProof, type VerifiedProof } from './dpop.ts';
import { engineRequest } from './engine-request.ts';
import { invalidClientAuth, temporarilyUnavailable } from './errors.ts';
import { findKnownClient } from './known-client.ts';
import {
  type AssertionContext,
  type AssertionParameters,
  type DescribeResource,
  issueAccessToken,
} from './issue-token.ts';

type Context = TokenEndpointGrantContext<AssertionParameters>;

/** The engine's client of all workloads. No registered client can have this id. */
export const WORKLOAD_CLIENT = 'workload:any';

const MAX_TOKEN_SECONDS = 600;
const GRANT_SECONDS = 366 * 86_400;

/** Gives the request of a workload the engine's client for them. Its own client id means nothing, unless it is one of ours. */
export function asWorkload(ctx: Koa.Context, params: Record<string, unknown>): void {
  if (params['grant_type'] !== JWT_BEARER || typeof params['assertion'] !== 'string') return;
  if (isIdJag(params['assertion'])) return;
  engineRequest(ctx).workload = { clientId: presentedClient(ctx, params) };
  params['client_id'] = WORKLOAD_CLIENT;
  for (const name of ['client_secret', 'client_assertion', 'client_assertion_type'])
    delete params[name];
  delete ctx.req.headers.authorization;
}

function isIdJag(assertion: string): boolean {
  try {
    return typeOf(decodeProtectedHeader(assertion)) === ID_JAG_TYPE;
  } catch {
    return false;
  }
}

function presentedClient(ctx: Koa.Context, { client_id: id }: Record<string, unknown>) {
  if (typeof id === 'string' && id !== '') return id;
  const [, encoded = ''] = /^basic +(\S+)$/i.exec(ctx.req.headers.authorization ?? '') ?? [];
  const [name = ''] = Buffer.from(encoded, 'base64').toString().split(':');
  return name === '' ? undefined : name;
}

export type ExchangeWorkload = (
  ctx: Context,
  proof: VerifiedProof | undefined,
  describeResource: DescribeResource,
) => Promise<void>;

/** Call once: the result caches the issuers' keys. Undefined if no issuer has workloads. */
export function workloadExchange(context: AssertionContext): ExchangeWorkload | undefined {
  const { settings, services } = context;
  const issuers = issuersOfWorkloads(settings, services.now);
  if (issuers.length === 0) return undefined;
  return async function exchange(ctx, proof, describeResource) {
    await refuseOwnClient(ctx);
    const { assertion } = ctx.oidc.params;
    if (!assertion) throw new errors.InvalidRequest('missing required parameter: assertion');
    let signed: Pick<Presented, 'issuer' | 'claims'> | undefined;
    try {
      const expected = { authUrl: settings.authUrl, now: services.now() };
      signed = await verifyWorkload(issuers, assertion, expected);
      const { issuer, claims } = signed;
      const found = await findRule(context, ctx, issuer, claims);
      const { isNoted, ...authorized } = await authorize(context, ctx, found, {
        issuer,
        claims,
        assertion,
        proof,
      });
      const { workload } = engineRequest(ctx);
      if (workload) workload.subject = subjectOf(claims);
      const isIssued = await issueAccessToken(ctx, { ...authorized, describeResource, proof });
      if (!isIssued) throw new WorkloadRefused('grant_ended', { rules: [found.rule.id] });
      if (isNoted) await recordToken(services, { found, claims, grantId: authorized.grantId });
    } catch (error) {
      if (signed && error instanceof WorkloadRefused) noteRefusal(ctx, signed, error);
      throw engineError(ctx, error);
    }
  };
}

const MAX_RECORDED_LENGTH = 300;

/** Once a minute for the same subject, as the list of the rule's last subjects. */
function recordToken(
  services: AssertionContext['services'],
  { found, claims, grantId }: { found: FoundRule; claims: Claims; grantId: string },
): Promise<unknown> {
  const { rule, connector, subject } = found;
  return recordAudit(services, {
    event: 'workload_token',
    account: subject,
    clientId: subject,
    connector: connector.id,
    grantId,
    arguments: {
      name: idOfSubject(subject),
      level: rule.level,
      subject: subjectOf(claims),
    },
    outcome: 'granted',
  });
}

/** For the audit log. Before the signature is checked, nothing in a JWT is worth recording. */
function noteRefusal(
  ctx: Context,
  { issuer, claims }: Pick<Presented, 'issuer' | 'claims'>,
  { reason, details }: WorkloadRefused,
): void {
  const { workload } = engineRequest(ctx);
  if (!workload) return;
  const [resource] = [ctx.oidc.params.resource ?? []].flat();
  const subject = subjectOf(claims);
  workload.refusal = { reason, issuerId: issuer.id, subject, details, resource };
}

/** As it is recorded. */
function subjectOf(claims: Claims): string {
  return String(claims['sub']).slice(0, MAX_RECORDED_LENGTH);
}

const ERRORS = { invalid_grant: errors.InvalidGrant, invalid_target: errors.InvalidTarget };

/** What the engine responds with (RFC 7521 section 4.1.1). */
function engineError(ctx: Context, error: unknown): unknown {
  if (error instanceof KeysUnavailable) {
    ctx.set('Retry-After', String(error.retryAfter));
    return temporarilyUnavailable(error);
  }
  if (!(error instanceof WorkloadRefused)) return error;
  const { reason, message } = error;
  return Object.assign(new ERRORS[WORKLOAD_ERRORS[reason].error](message), {
    error_description: message,
    error_detail: reason,
    scope: undefined,
  });
}

async function refuseOwnClient(ctx: Context): Promise<void> {
  const { clientId } = engineRequest(ctx).workload ?? {};
  if (clientId !== undefined && (await findKnownClient(ctx.oidc.provider, clientId)))
    throw invalidClientAuth('leave out client_id: a registered client is no workload');
}

/** Finds the only rule about the connect link that matches. A rule that was ended never matches. */
async function findRule(
  { settings: { resourceUrl }, services: { store }, policy }: AssertionContext,
  ctx: Context,
  issuer: TrustedIssuer,
  claims: Claims,
): Promise<FoundRule> {
  const [resource, ...others] = [ctx.oidc.params.resource ?? []].flat();
  if (resource === undefined || others.length > 0) throw new WorkloadRefused('no_resource');
  const id = connectorIdOf(resourceUrl, resource);
  const connector = id === undefined ? undefined : await policy.refreshConnector(id);
  if (!connector) throw new WorkloadRefused('unknown_resource');
  return matchingRule(await rulesAbout(store, issuer, connector), claims);
}

type Presented = {
  issuer: TrustedIssuer;
  claims: Claims;
  assertion: string;
  proof: VerifiedProof | undefined;
};

/** Checks everything before the first write. */
async function authorize(
  context: AssertionContext,
  ctx: Context,
  found: FoundRule,
  { issuer, claims, assertion, proof }: Presented,
) {
  const { settings, services } = context;
  const { store, now } = services;
  const { levels, resourceUrl } = settings;
  const { rule, connector, subject, record } = found;
  const refusal = refusalOfRule(found, now(), settings);
  const ofRule = { rules: [rule.id] };
  if (refusal) throw new WorkloadRefused(refusal, ofRule);
  // The engine takes a lifetime of zero for none. The keys may have been fetched slowly.
  const left = Math.floor(Number(claims['exp']) + MAX_CLOCK_SKEW_SECONDS - now());
  if (left < 1) throw new WorkloadRefused('expired', ofRule);
  const usedKey = usedAssertionKey(issuer, claims, assertion);
  if (issuer.singleUse && (await store.get(usedKey))) throw new WorkloadRefused('replayed', ofRule);
  const level = requireLevelOfProof(settings, ctx, lowest(levels, rule.level, connector.level));
  await proof?.consume();
  const own = await currentGrant(context, found);
  const { before, after } = await updateWorkloadRecord(store, subject, (stored) => {
    // Another first token at the same time may have made a grant: only that of the record is paused and ended.
    const isOurs = stored.grantId === record.grantId && stored.grantId !== own;
    const next = isOurs ? { ...stored, grantId: own } : stored;
    return withSubject(next, String(claims['sub']), now());
  });
  const { grantId = own } = after;
  if (grantId !== own) await endConnection(services, { id: own, state: 'active' }, 'never_used');
  // An administrator may have paused or ended it before the grant existed.
  if (after.pausedAt !== undefined || after.endedAt !== undefined) {
    await endConnection(services, { id: grantId, state: 'active' }, 'revoked_by_administrator');
    const reason = after.endedAt === undefined ? 'rule_paused' : 'no_rule';
    throw new WorkloadRefused(reason, ofRule);
  }
  if (issuer.singleUse && !(await store.add(usedKey, { at: Math.floor(now()) }, left)))
    throw new WorkloadRefused('replayed', ofRule);
  const asked = highestLevelIn(levels, ctx.oidc.params.scope);
  return {
    grantId,
    resource: connectLink(resourceUrl, connector.id),
    scopes: levelsUpTo(levels, asked ? lowest(levels, level, asked) : level),
    gty: JWT_BEARER,
    maxSeconds: Math.min(MAX_TOKEN_SECONDS, left),
    isNoted: after !== before,
  };
}

/** Returns the id of the grant of the rule, which is made at its first token and counts as one use of the connector. */
async function currentGrant(
  { settings, services, uses }: AssertionContext,
  { rule, connector, subject, record }: FoundRule,
): Promise<string> {
  const { store, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const known = record.grantId === undefined ? undefined : await findGrant(store, record.grantId);
  const isActiveStill = known !== undefined && isActive(known.value, lifetimes, now());
  const isOfRule =
    known?.value.connector === connector.id && grantedLevel(known.value) === rule.level;
  if (record.grantId !== undefined && isActiveStill && isOfRule) return record.grantId;
  if (isPaused(connector, settings))
    throw new WorkloadRefused('connector_paused', { rules: [rule.id] });
  const grantId = newGrantId();
  const holder = redeemerOf(subject, subject);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  // The use of a grant that ended stays that of the rule.
  const isGranted = async (id: string) =>
    id === record.grantId || (await isGrantActive(store, id, lifetimes, now()));
  if (!(await acquireUse(store, connector.id, reservation, { now: now(), isActive: isGranted })))
    throw new WorkloadRefused('used_up', { rules: [rule.id] });
  const { tools, calls } = rule;
  await createGrant({ store, now, lifetimes, grantLifetime: GRANT_SECONDS }, grantId, {
    account: { id: subject },
    client: { id: subject, name: rule.id, redirectHost: '' },
    connector: { id: connector.id },
    resource: connectLink(settings.resourceUrl, connector.id),
    scopes: levelsUpTo(settings.levels, rule.level),
    machine: { ...(tools ? { tools } : {}), ...(calls ? { calls: writeRate(calls) } : {}) },
  });
  uses.record(connector.id, { holder, grantId });
  await recordAudit(services, {
    event: 'grant_vouched',
    account: subject,
    clientId: subject,
    connector: connector.id,
    grantId,
    arguments: { level: rule.level, client: rule.id },
    outcome: 'granted',
  });
  if (record.grantId !== undefined && isActiveStill)
    await endConnection(services, { id: record.grantId, state: 'active' }, 'rule_changed');
  return grantId;
}
