// Resource indicators (RFC 8707): every resource is a connect link. Decides which level a token for it may have.
import { errors, type KoaContextWithOIDC, type ResourceServer } from 'oidc-provider';
import { type Account, grantEnd } from '../../people/account.ts';
import type { Access } from '../../people/entitlement.ts';
import {
  canonicalResource,
  connectorIdOf,
  LINK_MISTAKES,
  resourceMistake,
} from '../../links/connect-link.ts';
import {
  type Connector,
  type ConnectorSettings,
  connectorRefusal,
  connectorState,
  isPaused,
  isUsable,
} from '../../links/connector.ts';
import type { DpopSettings } from '../../dpop/required-levels.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { EnginePayload } from '../../connections/grant-record.ts';
import type { Reason } from '../../connections/reasons.ts';
import { SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import {
  highestLevelIn,
  isLevel,
  type Level,
  type Levels,
  levelOfScope,
  levelsUpTo,
  lowest,
  OFFLINE_ACCESS,
} from '../../permission-levels.ts';
import type { Via } from '../../settings/entitlements.ts';
import type { Settings } from '../../settings/settings.ts';
import { isWorkloadSubject, ruleInForce } from '../../settings/workloads.ts';
import { JWT_BEARER } from '../metadata.ts';
import { requireLevelOfProof } from './dpop.ts';
import { type EngineRequest, engineRequest, readAhead, startReading } from './engine-request.ts';
import { invalidGrant, mapStoreErrors } from './errors.ts';

export type TokenPolicy = {
  resourceUrl: string;
  settings: ConnectorSettings & DpopSettings & Pick<Settings, 'authorization'>;
  now: () => number;
  readConnector: (id: string) => Promise<Connector | undefined>;
  refreshConnector: (id: string) => Promise<Connector | undefined>;
  readAccount: (id: string) => Promise<Account | undefined>;
  refreshAccount: (id: string) => Promise<Account | undefined>;
  /** The connect link for requests that name none. */
  defaultLink: () => Promise<string | undefined>;
  accessOf: (account: Account, connector: Connector, via: Via) => Access;
};

export const NO_RESOURCE = 'the request has no resource: configure the client with a connect link';
const PAUSED = 'this connect link is paused; try again when an administrator has resumed it';
const UNKNOWN_RESOURCE = 'this connect link is unknown, revoked or expired; ask for a fresh one';

/** `signingKid` returns the id of the current signing key. */
export function resourceIndicators(policy: TokenPolicy, signingKid: () => string) {
  return {
    enabled: true,
    /** In a browser, `canonicalAuthorizationRequest` has already added the default connector, if there is one. */
    async defaultResource(
      ctx: KoaContextWithOIDC,
      _client: unknown,
      oneOf?: string[],
    ): Promise<string> {
      const link = ctx.oidc.route === 'device_authorization' && (await policy.defaultLink());
      if (link) return link;
      if (oneOf) throw new errors.InvalidTarget('request one resource at a time');
      throw new errors.InvalidTarget(NO_RESOURCE);
    },
    useGrantedResource: () => true,
    getResourceServerInfo: mapStoreErrors(async function resourceServerInfo(
      ctx: KoaContextWithOIDC,
      resource: string,
    ): Promise<ResourceServer> {
      const { RefreshToken: refreshToken } = ctx.oidc.entities;
      const level =
        ctx.oidc.route === 'token'
          ? requireLevelOfProof(
              policy.settings,
              ctx,
              await requireLevel(policy, grantedIn(ctx, resource)),
              refreshToken,
            )
          : (await requireConnector(policy, ctx, resource)).level;
      return {
        scope: [...levelsUpTo(policy.settings.levels, level), OFFLINE_ACCESS].join(' '),
        audience: resource,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: SIGNING_ALGORITHM, kid: signingKid() } },
      };
    }),
  };
}

function grantedIn(ctx: KoaContextWithOIDC, resource: string) {
  const { accountId, iat, openid } = ctx.oidc.entities.Grant ?? {};
  const scope = openid?.scope;
  return { resource, accountId, iat, scope, gty: ctx.oidc.params?.grant_type };
}

const connectorKey = (id: string) => `connector:${id}`;

/** Starts to refresh the connector that the request will need. */
export function readConnectorAhead(
  policy: TokenPolicy,
  request: EngineRequest,
  resource: string,
): void {
  const id = connectorIdOf(policy.resourceUrl, resource);
  if (id !== undefined) startReading(request, connectorKey(id), () => policy.refreshConnector(id));
}

/** Unless the request has just read it, refreshes the cached connector, which the code exchange reads again. Accepts a used-up link, because the person may have a use of it. */
async function requireConnector(policy: TokenPolicy, ctx: KoaContextWithOIDC, resource: string) {
  if (Array.isArray(ctx.oidc.params?.resource))
    throw new errors.InvalidTarget('request one resource at a time');
  const id = connectorIdOf(policy.resourceUrl, resource);
  const mistake = id === undefined && resourceMistake(policy.resourceUrl, resource);
  if (mistake) throw new errors.InvalidTarget(LINK_MISTAKES[mistake]);
  const known = engineRequest(ctx).connector;
  const connector =
    id === undefined || known?.id === id
      ? known
      : await readAhead(connectorKey(id), () => policy.refreshConnector(id));
  const reason = connector && connectorRefusal(connector, policy.now(), policy.settings);
  if (reason) {
    const { session, client } = ctx.oidc;
    engineRequest(ctx).refusal = {
      reason,
      account: session?.accountId,
      clientId: client?.clientId,
      connector: connector.id,
    };
  }
  if (!connector || !isUsable(connector, policy.now(), policy.settings))
    throw new errors.InvalidTarget(UNKNOWN_RESOURCE);
  if (isPaused(connector, policy.settings))
    throw new errors.CustomOIDCProviderError('connector_paused', PAUSED);
  return connector;
}

/**
 * Validates a token request against the grant, before anything is consumed. Rejects with `invalid_target` for another resource, with `invalid_grant` if the connector is revoked or expired or the account may no
 * longer use it, and with `invalid_dpop_proof` if every level needs a proof and there is none. Reduces a scope beyond the grant to the granted one.
 */
export async function validateTokenRequest(
  policy: TokenPolicy,
  ctx: KoaContextWithOIDC,
  granted: EnginePayload,
): Promise<void> {
  const params = ctx.oidc.params ?? {};
  validateResource(params, String(granted.resource));
  params.scope = narrowedScope(policy.settings.levels, params.scope, String(granted.scope ?? ''));
  if (params.scope === undefined) delete params.scope;
  const level = await requireLevel(policy, granted);
  const refreshToken = granted.kind === 'RefreshToken' ? granted : undefined;
  requireLevelOfProof(policy.settings, ctx, level, refreshToken);
}

function validateResource(params: Record<string, unknown>, granted: string): void {
  if (params.resource === undefined) return;
  const asked = new Set(
    [params.resource].flat().map((resource) => canonicalResource(String(resource))),
  );
  if (asked.size !== 1 || !asked.has(granted)) {
    throw new errors.InvalidTarget('resource must be the approved connect link, or be omitted');
  }
  params.resource = granted;
}

/** Undefined means the whole granted scope. `offline_access` stays, because it shows that there is a refresh token. */
function narrowedScope(levels: Levels, asked: unknown, granted: string): string | undefined {
  const level = typeof asked === 'string' ? highestLevelIn(levels, asked) : undefined;
  if (!level) return undefined;
  const wanted = new Set<string>([...levelsUpTo(levels, level), OFFLINE_ACCESS]);
  return granted
    .split(' ')
    .filter((scope) => wanted.has(scope))
    .join(' ');
}

/** Returns the highest level that the account may have now through the connector. Reads through caches. */
export async function requireLevel(policy: TokenPolicy, granted: EnginePayload): Promise<Level> {
  const id = connectorIdOf(policy.resourceUrl, String(granted.resource));
  const accountId = String(granted.accountId);
  const isMachine = isMachineSubject(accountId);
  const [connector, account] = await Promise.all([
    id === undefined ? undefined : policy.readConnector(id),
    isMachine ? undefined : policy.readAccount(accountId),
  ]);
  const ended = connectorEndReason(policy, connector);
  if (!connector || ended)
    throw invalidGrant('the connect link was revoked, has expired or is not configured', ended);
  const end = account && grantEnd(account, Number(granted.iat));
  if (end)
    throw invalidGrant(
      'the account was disabled, or ended by the identity provider, after this was granted',
      end.reason,
    );
  const level = levelOfScope(granted.scope as string | undefined);
  if (level === undefined || !isLevel(policy.settings.levels, level))
    throw invalidGrant('the level of this connection no longer exists', 'level_removed');
  if (isWorkloadSubject(accountId))
    return lowest(
      policy.settings.levels,
      connector.level,
      level,
      levelOfRule(policy, accountId, connector),
    );
  if (isMachine) return lowest(policy.settings.levels, connector.level, level);
  const via = granted.gty === JWT_BEARER ? 'id-jag' : 'sign-in';
  const access = account
    ? policy.accessOf(account, connector, via)
    : { refusal: 'account_deleted' as const };
  if (access.refusal)
    throw invalidGrant('the account may not use this connect link', access.refusal);
  return lowest(policy.settings.levels, connector.level, access.level, level);
}

function levelOfRule({ settings, now }: TokenPolicy, subject: string, connector: Connector): Level {
  const { trustedIssuers } = settings.authorization;
  const rule = ruleInForce(trustedIssuers, subject, { connector, now: now() });
  if (rule && isLevel(settings.levels, rule.level)) return rule.level;
  throw invalidGrant('the rule of the workload was removed or has expired', 'workload_gone');
}

function connectorEndReason(
  { now, settings }: TokenPolicy,
  connector: Connector | undefined,
): Reason | undefined {
  if (!connector) return 'connector_deleted';
  const state = connectorState(connector, now(), settings);
  if (state === 'revoked') return 'connector_revoked';
  if (state === 'unconfigured') return 'connector_unconfigured';
  return state === 'expired' ? 'connector_expired' : undefined;
}
