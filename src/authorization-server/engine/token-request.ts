// Validates a token request against the grant before anything is consumed: resource (RFC 8707), scope, connector and account.
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { type Account, isValidSince } from '../../accounts/account.ts';
import { type Connector, connectorState } from '../../connectors/connector.ts';
import { canonicalResource, connectorIdOf } from '../../connectors/connect-link.ts';
import type { EnginePayload } from '../../grants/grant-record.ts';
import type { Reason } from '../../grants/reasons.ts';
import type { Via } from '../../settings/entitlements.ts';
import { JWT_BEARER } from '../metadata.ts';
import {
  highestLevelIn,
  levelsUpTo,
  lowest,
  type Level,
  OFFLINE_ACCESS,
} from '../../permission-level.ts';
import { invalidGrant } from './errors.ts';

export type TokenPolicy = {
  resourceUrl: string;
  now: () => number;
  readConnector: (id: string) => Promise<Connector | undefined>;
  refreshConnector: (id: string) => Promise<Connector | undefined>;
  readAccount: (id: string) => Promise<Account | undefined>;
  refreshAccount: (id: string) => Promise<Account | undefined>;
  levelOf: (account: Account, via: Via) => Level | undefined;
};

/**
 * Rejects with `invalid_target` for another resource, and with `invalid_grant` if the connector is revoked or expired or the account may no
 * longer use it. Reduces a scope beyond the grant to the granted one.
 */
export async function validateTokenRequest(
  policy: TokenPolicy,
  ctx: KoaContextWithOIDC,
  granted: EnginePayload,
): Promise<void> {
  const params = ctx.oidc.params ?? {};
  validateResource(params, String(granted.resource));
  params.scope = narrowedScope(params.scope, String(granted.scope ?? ''));
  if (params.scope === undefined) delete params.scope;
  await requireLevel(policy, granted);
}

function validateResource(params: Record<string, unknown>, granted: string): void {
  if (params.resource === undefined) return;
  const asked = new Set(
    [params.resource].flat().map((resource) => canonicalResource(String(resource))),
  );
  if (asked.size !== 1 || !asked.has(granted)) {
    throw new errors.InvalidTarget(
      'resource must be the connect link that was approved, or be left out',
    );
  }
  params.resource = granted;
}

/** Undefined means the whole granted scope. `offline_access` stays, because it shows that there is a refresh token. */
function narrowedScope(asked: unknown, granted: string): string | undefined {
  const level = typeof asked === 'string' ? highestLevelIn(asked) : undefined;
  if (!level) return undefined;
  const wanted = new Set<string>([...levelsUpTo(level), OFFLINE_ACCESS]);
  return granted
    .split(' ')
    .filter((scope) => wanted.has(scope))
    .join(' ');
}

/** Returns the highest level that the account may have now through the connector. Reads through caches. */
export async function requireLevel(policy: TokenPolicy, granted: EnginePayload): Promise<Level> {
  const id = connectorIdOf(policy.resourceUrl, String(granted.resource));
  const [connector, account] = await Promise.all([
    id === undefined ? undefined : policy.readConnector(id),
    policy.readAccount(String(granted.accountId)),
  ]);
  const over = connectorEndReason(connector, policy.now());
  if (!connector || over) throw invalidGrant('the connect link was revoked or has expired', over);
  if (account && !isValidSince(account, Number(granted.iat))) {
    throw invalidGrant('the account was disabled after this was granted', 'account_disabled');
  }
  const via = granted.gty === JWT_BEARER ? 'id-jag' : 'sign-in';
  const entitled = account && policy.levelOf(account, via);
  if (!entitled) {
    const reason = account ? 'not_entitled' : 'account_deleted';
    throw invalidGrant('the account may not use this connect link', reason);
  }
  return lowest(connector.level, entitled);
}

function connectorEndReason(connector: Connector | undefined, now: number): Reason | undefined {
  if (!connector) return 'connector_deleted';
  const state = connectorState(connector, now);
  if (state === 'revoked') return 'connector_revoked';
  return state === 'expired' ? 'connector_expired' : undefined;
}
