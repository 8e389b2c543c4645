// The access token of a call (RFC 6750, RFC 9068): verified here, for this one link, and only while connector and grant stand.
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose';
import type { Connector } from '../connectors/connector.ts';
import { connectLink } from '../connectors/connect-link.ts';
import type { GrantRecord } from '../grants/grant-record.ts';
import { unavailable } from '../http/errors.ts';
import { type MintedToken, mintedAudience } from '../minted-tokens/minted-tokens.ts';
import { isLevel, lowest } from '../permission-level.ts';
import type { Caller } from './level.ts';

export type BearerOptions = {
  authUrl: string;
  resourceUrl: string;
  verificationKeys: JWTVerifyGetKey;
  /** As it was at most 10 s ago, or 45 s when the store is away. */
  readGrant: (id: string) => Promise<GrantRecord | undefined>;
  readMintedToken: (id: string) => Promise<MintedToken | undefined>;
};

const MAX_LENGTH = 8192;

export type Presented = { token?: string; isPresent: boolean };

/** RFC 6750 section 2.1; the scheme in any case (RFC 9110 section 11.1). Another scheme is no token. */
export function presentedToken(authorization = ''): Presented {
  const [, token] = /^bearer +([\w.~+/-]+=*) *$/i.exec(authorization) ?? [];
  const isPresent = /^bearer( |$)/i.test(authorization);
  return { isPresent, ...(token && token.length <= MAX_LENGTH ? { token } : {}) };
}

/** Undefined when the token is not good for this connector now. Rejects with 503 when that cannot be found out. */
export async function callerOf(
  options: BearerOptions,
  connector: Connector,
  token: string,
): Promise<Caller | undefined> {
  const claims = await verify(options, connectLink(options.resourceUrl, connector.id), token);
  if (!claims) return undefined;
  const { sub, jti, scope, client_id: clientId, grant_id: grantId } = claims;
  if (
    !sub ||
    !jti ||
    typeof clientId !== 'string' ||
    typeof grantId !== 'string' ||
    !isLevel(scope)
  )
    return undefined;
  const grant = await options.readGrant(grantId);
  const isAlive =
    grant !== undefined && grant.revoked?.[jti] === undefined && grant.connector === connector.id;
  if (!isAlive) return undefined;
  return {
    accountId: sub,
    clientId,
    grantId,
    connector: connector.id,
    tokenId: jti,
    level: lowest(scope, connector.level),
    ceiling: connector.level,
    minted: false,
  };
}

/** With the record that was read, so that its use can be noted. */
export type MintedCaller = Caller & { record: MintedToken };

/** The caller behind a minted token, which is good for this one address; undefined when it is not good now. */
export async function mintedCallerOf(
  options: BearerOptions,
  token: string,
): Promise<MintedCaller | undefined> {
  const claims = await verify(options, mintedAudience(options.resourceUrl), token);
  const record = claims?.jti === undefined ? undefined : await options.readMintedToken(claims.jti);
  if (!record || !claims?.sub || !isLevel(claims.scope)) return undefined;
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

async function verify(
  options: BearerOptions,
  audience: string,
  token: string,
): Promise<JWTPayload | undefined> {
  try {
    const { payload } = await jwtVerify(token, options.verificationKeys, {
      issuer: options.authUrl,
      audience,
      typ: 'at+jwt',
      algorithms: ['ES256'],
      requiredClaims: ['exp', 'iat', 'jti', 'sub'],
    });
    return payload.aud === audience ? payload : undefined;
  } catch (error) {
    if (isAboutTheToken(error)) return undefined;
    throw unavailable(error);
  }
}

/** The rest is about the keys, which a remote authorization server may fail to deliver. */
function isAboutTheToken(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  const aboutKeys: string[] = [
    errors.JOSEError.code,
    errors.JWKSTimeout.code,
    errors.JWKSInvalid.code,
  ];
  return !aboutKeys.includes(error.code);
}
