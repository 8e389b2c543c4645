// What the models of the grant record share.
import type { KeyObject } from 'node:crypto';
import type { KoaContextWithOIDC } from 'oidc-provider';
import type { DpopSettings } from '../../../dpop/required-levels.ts';
import type { Lifetimes } from '../../../connections/grant-lifetime.ts';
import type { EnginePayload, GrantRecord } from '../../../connections/grant-record.ts';
import type { Reason } from '../../../connections/reasons.ts';
import type { Store } from '../../../store/store.ts';

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
