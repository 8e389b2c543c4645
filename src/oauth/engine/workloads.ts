// Access tokens for workloads, by the JWT of their platform (RFC 7523 section 2.1; MCP extension workload-identity-federation).
import { createHash } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type Koa from 'koa';
import { errors, type TokenEndpointGrantContext } from 'oidc-provider';
import { recordAudit } from '../../audit/audit.ts';
import {
  findWorkloadRecord,
  updateWorkloadRecord,
  withSubject,
  type WorkloadRecord,
} from '../../clients/workloads.ts';
import { endConnection } from '../../connections/connections.ts';
import { createGrant, newGrantId } from '../../connections/create-grant.ts';
import { grantLifetimes, isActive, redemptionDeadline } from '../../connections/grant-lifetime.ts';
import { grantedLevel } from '../../connections/grant-record.ts';
import { findGrant, isGrantActive } from '../../connections/grants.ts';
import { connectLink, connectorIdOf } from '../../links/connect-link.ts';
import { type Connector, isPaused, isUsable, redeemerOf } from '../../links/connector.ts';
import { acquireUse, listConnectors } from '../../links/connectors.ts';
import { highestLevelIn, isLevel, levelsUpTo, lowest } from '../../permission-levels.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { writeRate } from '../../settings/limits.ts';
import { type WorkloadRule, workloadSubject } from '../../settings/workloads.ts';
import { ENDPOINTS, JWT_BEARER } from '../metadata.ts';
import { requireLevelOfProof, type VerifiedProof } from './dpop.ts';
import { engineRequest } from './engine-request.ts';
import { invalidClientAuth } from './errors.ts';
import type { Claims } from './id-jag-validation.ts';
import {
  type AssertionContext,
  type AssertionParameters,
  type DescribeResource,
  issueAccessToken,
} from './issue-token.ts';
import { type CheckSignature, signatureOfWorkload } from './workload-keys.ts';
import {
  checkWorkloadClaims,
  checkWorkloadHeader,
  isIdJagType,
  MAX_CLOCK_SKEW_SECONDS,
  matchingRule,
  typeOf,
  unmatchedClaim,
  WORKLOAD_CLIENT,
  workloadError,
} from './workload-validation.ts';

type Context = TokenEndpointGrantContext<AssertionParameters>;
type IssuerOfWorkloads = { issuer: TrustedIssuer; check: CheckSignature };

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
    return isIdJagType(typeOf(decodeProtectedHeader(assertion)));
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
  const issuers = context.settings.authorization.trustedIssuers
    .filter(({ workloads }) => workloads.length > 0)
    .map((issuer): IssuerOfWorkloads => ({ issuer, check: signatureOfWorkload(issuer) }));
  if (issuers.length === 0) return undefined;
  return async function exchange(ctx, proof, describeResource) {
    await refuseOwnClient(ctx);
    const { assertion } = ctx.oidc.params;
    if (!assertion) throw new errors.InvalidRequest('missing required parameter: assertion');
    const { issuer, claims } = await validate(context, issuers, assertion);
    const found = await findRule(context, ctx, issuer, claims);
    const authorized = await authorize(context, ctx, found, { issuer, claims, assertion });
    await proof?.consume();
    const isIssued = await issueAccessToken(ctx, { ...authorized, describeResource, proof });
    if (!isIssued) throw workloadError('grant_ended');
  };
}

async function refuseOwnClient(ctx: Context): Promise<void> {
  const { clientId } = engineRequest(ctx).workload ?? {};
  const isOwn = clientId !== undefined && (await ctx.oidc.provider.Client.find(clientId));
  if (isOwn) throw invalidClientAuth('leave out client_id: a registered client is no workload');
}

async function validate(
  { settings: { authUrl }, services: { now } }: AssertionContext,
  issuers: readonly IssuerOfWorkloads[],
  assertion: string,
): Promise<{ issuer: TrustedIssuer; claims: Claims }> {
  const { header, claims } = decode(assertion);
  const headerError = checkWorkloadHeader(header);
  if (headerError) throw workloadError(headerError);
  const trusted = issuers.find(({ issuer }) => issuer.issuer === claims['iss']);
  if (!trusted) throw workloadError('unknown_issuer');
  const { issuer, check } = trusted;
  const tokenEndpoint = authUrl + ENDPOINTS.token;
  const refusal = checkWorkloadClaims(claims, { issuer, authUrl, tokenEndpoint, now: now() });
  if (refusal) throw workloadError(refusal);
  const unsigned = await check(assertion);
  if (unsigned) throw workloadError(unsigned);
  return { issuer, claims };
}

function decode(assertion: string): { header: Record<string, unknown>; claims: Claims } {
  try {
    return { header: decodeProtectedHeader(assertion), claims: decodeJwt(assertion) };
  } catch {
    throw workloadError('malformed');
  }
}

type FoundRule = {
  rule: WorkloadRule;
  connector: Connector;
  subject: string;
  record: WorkloadRecord;
};

/** Finds the only rule about the connect link that matches. A rule that was ended never matches. */
async function findRule(
  { settings: { resourceUrl }, services: { store }, policy }: AssertionContext,
  ctx: Context,
  issuer: TrustedIssuer,
  claims: Claims,
): Promise<FoundRule> {
  const [resource, ...others] = [ctx.oidc.params.resource ?? []].flat();
  if (resource === undefined || others.length > 0) throw workloadError('no_resource');
  const id = connectorIdOf(resourceUrl, resource);
  const connector = id === undefined ? undefined : await policy.refreshConnector(id);
  if (!connector) throw workloadError('unknown_resource');
  const candidates = issuer.workloads.filter(
    (rule) => rule.connector === connector.id || rule.connector === connector.name,
  );
  const isNamed = candidates.some((rule) => rule.connector !== connector.id);
  const namesakes = isNamed
    ? (await listConnectors(store)).filter(({ name }) => name === connector.name).length
    : 1;
  const rules = candidates.filter((rule) => rule.connector === connector.id || namesakes === 1);
  const found = await Promise.all(
    rules.map(async (rule) => {
      const subject = workloadSubject(issuer.id, rule.id);
      return { rule, connector, subject, record: await findWorkloadRecord(store, subject) };
    }),
  );
  const usable = found.filter(({ record }) => record.endedAt === undefined);
  if (usable.length === 0) throw workloadError('unknown_resource');
  const matched = matchingRule(
    usable.map(({ rule }) => rule),
    claims,
  );
  const only = usable.find(({ rule }) => rule === matched);
  if (only) return only;
  const [first] = usable;
  const claim = usable.length === 1 && first ? unmatchedClaim(first.rule, claims) : undefined;
  const about =
    claim === undefined || !first
      ? ''
      : `: the claim ${claim} does not match the rule ${first.rule.id}`;
  throw workloadError(matched === 'several_rules' ? matched : 'no_rule', about);
}

type Presented = { issuer: TrustedIssuer; claims: Claims; assertion: string };

/** Checks everything before the first write. */
async function authorize(
  context: AssertionContext,
  ctx: Context,
  found: FoundRule,
  { issuer, claims, assertion }: Presented,
) {
  const { settings, services } = context;
  const { store, now } = services;
  const { levels, resourceUrl } = settings;
  const { rule, connector, subject, record } = found;
  const about = `: the rule is ${rule.id}`;
  if (record.pausedAt !== undefined) throw workloadError('rule_paused', about);
  if (rule.expires !== undefined && rule.expires <= now())
    throw workloadError('rule_expired', about);
  if (!isUsable(connector, now(), settings)) throw workloadError('connector_ended', about);
  if (!isLevel(levels, rule.level)) throw workloadError('level_gone', about);
  // The engine takes a lifetime of zero for none. The keys may have been fetched slowly.
  const left = Math.floor(Number(claims['exp']) + MAX_CLOCK_SKEW_SECONDS - now());
  if (left < 1) throw workloadError('expired');
  const usedKey = `assertion:${issuer.issuer}\n${idOfAssertion(claims, assertion)}`;
  if (issuer.singleUse && (await store.get(usedKey))) throw workloadError('replayed');
  const level = requireLevelOfProof(settings, ctx, lowest(levels, rule.level, connector.level));
  const own = await currentGrant(context, found);
  const { after } = await updateWorkloadRecord(store, subject, (before) => {
    // Another first token at the same time may have made a grant: only that of the record is paused and ended.
    const isOurs = before.grantId === record.grantId && before.grantId !== own;
    const next = isOurs ? { ...before, grantId: own } : before;
    return withSubject(next, String(claims['sub']), now());
  });
  const { grantId = own } = after;
  if (grantId !== own) await endConnection(services, { id: own, state: 'active' }, 'never_used');
  // An administrator may have paused or ended it before the grant existed.
  if (after.pausedAt !== undefined || after.endedAt !== undefined) {
    await endConnection(services, { id: grantId, state: 'active' }, 'revoked_by_administrator');
    throw workloadError(after.endedAt === undefined ? 'rule_paused' : 'no_rule');
  }
  if (issuer.singleUse && !(await store.add(usedKey, { at: Math.floor(now()) }, left)))
    throw workloadError('replayed');
  const asked = highestLevelIn(levels, ctx.oidc.params.scope);
  return {
    grantId,
    resource: connectLink(resourceUrl, connector.id),
    scopes: levelsUpTo(levels, asked ? lowest(levels, level, asked) : level),
    gty: JWT_BEARER,
    maxSeconds: Math.min(MAX_TOKEN_SECONDS, left),
  };
}

function idOfAssertion({ jti }: Claims, assertion: string): string {
  if (typeof jti === 'string' && jti !== '') return jti;
  return createHash('sha256').update(assertion).digest('base64url');
}

/** Returns the id of the grant of the rule, which is made at its first token and counts as one use of the connector. */
async function currentGrant(
  { settings, services, uses }: AssertionContext,
  { rule, connector, subject, record }: FoundRule,
): Promise<string> {
  const { store, now } = services;
  const lifetimes = grantLifetimes(settings.lifetimes);
  const known = record.grantId === undefined ? undefined : await findGrant(store, record.grantId);
  const isCurrent =
    known !== undefined &&
    isActive(known.value, lifetimes, now()) &&
    known.value.connector === connector.id &&
    grantedLevel(known.value) === rule.level;
  if (record.grantId !== undefined && isCurrent) return record.grantId;
  if (isPaused(connector, settings)) throw workloadError('connector_paused');
  const grantId = newGrantId();
  const holder = redeemerOf(subject, subject);
  const reservation = { grantId, holder, reservedUntil: now() + redemptionDeadline(lifetimes) };
  const isGranted = (id: string) => isGrantActive(store, id, lifetimes, now());
  if (!(await acquireUse(store, connector.id, reservation, { now: now(), isActive: isGranted })))
    throw workloadError('used_up');
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
  if (record.grantId !== undefined && known)
    await endConnection(services, { id: record.grantId, state: 'active' }, 'level_removed');
  return grantId;
}
