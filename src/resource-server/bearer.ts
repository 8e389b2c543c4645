// The access token of a call (RFC 6750, RFC 9068, RFC 9449): verified here, for this one link, and only while connector, grant and account stand.
import type { JWTPayload } from 'jose';
import { type Account, isHonoured } from '../accounts/account.ts';
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { allowsLevel, type GrantRecord } from '../grants/grant-record.ts';
import { type MintedToken, mintedAudience } from '../minted-tokens/minted-tokens.ts';
import { isLevel, lowest } from '../permission-level.ts';
import type { Caller } from './level.ts';
import { membersOf } from './messages.ts';
import type { BadToken, VerifyToken } from './verified-tokens.ts';

export type BearerOptions = {
  resourceUrl: string;
  verifyToken: VerifyToken;
  /** As it was at most 9 s ago, or 45 s when the store is away. */
  readGrant: (id: string) => Promise<GrantRecord | undefined>;
  readAccount: (id: string) => Promise<Account | undefined>;
  readMintedToken: (id: string) => Promise<MintedToken | undefined>;
};

const MAX_LENGTH = 8192;

/** How a token is presented: `DPoP` with a proof of the key that it is bound to (RFC 9449 section 7.1). */
export type Scheme = 'Bearer' | 'DPoP';

export type Presented = { token?: string; isPresent: boolean; scheme: Scheme };

/** RFC 6750 section 2.1; the scheme in any case (RFC 9110 section 11.1). Another scheme is no token. */
export function presentedToken(authorization = ''): Presented {
  const [, scheme, rest = ''] = /^(bearer|dpop)(?: (.*))?$/i.exec(authorization) ?? [];
  const token = rest.trim();
  return {
    isPresent: scheme !== undefined,
    scheme: scheme?.toLowerCase() === 'dpop' ? 'DPoP' : 'Bearer',
    ...(token && token.length <= MAX_LENGTH ? { token } : {}),
  };
}

/** `ended`: what it was issued under is over. `bound` and `unbound`: presented with the scheme of the other kind. */
export type Refusal = BadToken | 'ended' | 'bound' | 'unbound';

/** Why, when the token is not good for this connector now. Rejects with 503 when that cannot be found out. */
export async function callerOf(
  options: BearerOptions,
  connector: Connector,
  token: string,
  scheme: Scheme,
): Promise<Caller | Refusal> {
  const claims = await options.verifyToken(token, connectLink(options.resourceUrl, connector.id));
  if (typeof claims === 'string') return claims;
  const { sub, jti, scope, client_id: clientId, grant_id: grantId } = claims;
  if (
    !sub ||
    !jti ||
    typeof clientId !== 'string' ||
    typeof grantId !== 'string' ||
    !isLevel(scope)
  )
    return 'unknown';
  const keyThumbprint = boundTo(claims);
  if (keyThumbprint === 'other') return 'unknown';
  if (scheme === 'Bearer' && keyThumbprint !== undefined) return 'bound';
  if (scheme === 'DPoP' && keyThumbprint === undefined) return 'unbound';
  const [grant, account] = await Promise.all([
    options.readGrant(grantId),
    options.readAccount(sub),
  ]);
  const isAlive =
    grant !== undefined &&
    grant.revoked?.[jti] === undefined &&
    grant.connector === connector.id &&
    grant.grant.accountId === sub &&
    grant.grant.clientId === clientId;
  if (!isAlive || !account || !isHonoured(account, grant.createdAt)) return 'ended';
  // A token of a higher level is from before the person lowered it: the client fetches another.
  if (!allowsLevel(grant, scope)) return 'ended';
  return {
    accountId: sub,
    clientId,
    grantId,
    connector: connector.id,
    tokenId: jti,
    level: lowest(scope, connector.level),
    ceiling: connector.level,
    minted: false,
    ...(keyThumbprint === undefined ? {} : { keyThumbprint }),
  };
}

/** The thumbprint of the key that a token is bound to (RFC 9449 section 6.1); a binding of another kind is not understood here. */
function boundTo({ cnf }: JWTPayload): string | undefined {
  if (cnf === undefined) return undefined;
  const { jkt, ...others } = membersOf(cnf);
  return typeof jkt === 'string' && Object.keys(others).length === 0 ? jkt : 'other';
}

/** With the record that was read, so that its use can be noted. */
export type MintedCaller = Caller & { record: MintedToken };

/** The caller behind a minted token, which is good for this one address; why, when it is not good now. */
export async function mintedCallerOf(
  options: BearerOptions,
  token: string,
  scheme: Scheme,
): Promise<MintedCaller | Refusal> {
  const claims = await options.verifyToken(token, mintedAudience(options.resourceUrl));
  if (typeof claims === 'string') return claims;
  if (!claims.sub || !claims.jti || !isLevel(claims.scope)) return 'unknown';
  if (scheme === 'DPoP') return 'unbound';
  const record = await options.readMintedToken(claims.jti);
  if (!record) return 'ended';
  const level = lowest(claims.scope, record.level);
  return {
    accountId: claims.sub,
    clientId: claims.sub,
    tokenId: record.id,
    level,
    ceiling: level,
    minted: true,
    record,
  };
}
