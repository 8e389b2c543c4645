// Verifies the header Gatehouse-Caller. Needs jose (https://www.npmjs.com/package/jose).
import { createRemoteJWKSet, jwtVerify, type JWTVerifyGetKey } from 'jose';

/** Who calls. Only `sub`, `client_id` and `level` are always there; README.md says what the settings of Gatehouse add. */
export type Caller = {
  sub: string;
  client_id: string;
  level: string;
  connector?: string;
  name?: string;
  email?: string;
  email_verified?: true;
  groups?: string[];
  groups_truncated?: true;
  idp?: string;
  idp_sub?: string;
  provider?: string;
};

export type Options = {
  /** `authUrl` of Gatehouse. */
  issuer: string;
  /** `url` of this server, exactly as in the settings of Gatehouse. */
  audience: string;
  keys?: JWTVerifyGetKey;
  now?: () => Date;
};

const CLOCK_TOLERANCE_SECONDS = 10;

/** The returned function rejects if the header is missing, forged, expired or for another server. */
export function callerVerifier({
  issuer,
  audience,
  // Cached. Fetched again for an unknown key, at most every 30 s.
  keys = createRemoteJWKSet(new URL(`${issuer}/oauth/jwks`)),
  now = () => new Date(),
}: Options): (header: string | string[] | undefined) => Promise<Caller> {
  return async (header) => {
    if (typeof header !== 'string') throw new Error('there is not one header Gatehouse-Caller');
    const { payload } = await jwtVerify(header, keys, {
      issuer,
      audience,
      // An access token of Gatehouse has another type.
      typ: 'gatehouse-caller+jwt',
      algorithms: ['ES256'],
      requiredClaims: ['exp', 'iat', 'sub', 'client_id', 'level'],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: now(),
    });
    if (payload.aud !== audience) throw new Error('the header is also for other servers');
    return payload as Caller;
  };
}
