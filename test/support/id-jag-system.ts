// A Gatehouse that trusts two issuers of assertions (ID-JAG), and an app that presents what they sign.
import { decodeJwt } from 'jose';
import { type Connector, createConnector } from './management-api.ts';
import { restoreClock } from './clock.ts';
import { type Client, discover, type Parameters, requestToken, type TokenAnswer } from './oauth.ts';
import { openSystemStore } from './system-store.ts';
import { startSystem, type System } from './system.ts';
import { rightClaims, startVouchingIssuer, type VouchingIssuer } from './id-jag-issuer.ts';

export const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const REDIRECT = 'https://app.example.com/callback';

const client = (id: string): Client => ({
  id,
  secret: `the-secret-of-${id}-that-is-long-enough`,
  method: 'client_secret_basic',
  redirectUri: REDIRECT,
});
/** The first issuer may vouch for all but `UNVOUCHED`, the second for that one and `APP`. */
export const APP = client('app');
export const OTHER = client('other-app');
export const FORBIDDEN = client('forbidden');
export const UNVOUCHED = client('unvouched');

export type Claims = { [name: string]: unknown };

/** As settings have it. */
export function inSettings({ id, secret }: Client) {
  return { id, secret, name: `The ${id}`, redirectUris: [REDIRECT] };
}

export type Vouching = {
  system: System;
  /** Its keys are in the settings. */
  idp: VouchingIssuer;
  /** Its keys are fetched. */
  second: VouchingIssuer;
  connector: Connector;
};

/** One for all claims of the `describe` around it; use what it returns while a claim runs. */
export function useVouching() {
  let running: Vouching | undefined;
  before(async () => {
    const [idp, second] = await Promise.all([startVouchingIssuer(), startVouchingIssuer()]);
    const system = await startSystem({ file: settings(idp, second) });
    running = { system, idp, second, connector: await createConnector(system) };
  });
  afterEach(restoreClock);
  after(async () => {
    await running?.system.stop();
    await Promise.all([running?.idp.stop(), running?.second.stop()]);
  });
  const now = (): Vouching => {
    if (!running) throw new Error('the system runs only while a claim does');
    return running;
  };

  /** The claims of an assertion of the first issuer that is good. */
  function claimsFor(sub: string, more: Claims = {}): Claims {
    const { system, idp, connector } = now();
    const parties = { aud: system.auth, client_id: APP.id, resource: connector.link };
    return { ...rightClaims(idp.issuer), ...parties, sub, groups: ['staff'], ...more };
  }

  async function present(assertion: string, as = APP, more: Parameters = {}): Promise<TokenAnswer> {
    const { server } = await discover(now().connector.link);
    return requestToken(server, as, { grant_type: GRANT_TYPE, assertion, ...more });
  }

  async function vouch(sub: string, more: Claims = {}, parameters: Parameters = {}) {
    return present(await now().idp.sign(claimsFor(sub, more)), APP, parameters);
  }

  /** Throws when it is refused. */
  async function obtain(sub: string, more: Claims = {}, parameters: Parameters = {}) {
    const { body } = await vouch(sub, more, parameters);
    if (!body.access_token) throw new Error(JSON.stringify(body));
    const claims = decodeJwt(body.access_token);
    return { body, token: body.access_token, grantId: String(claims.grant_id), claims };
  }

  /** As when the process died before it was noted that the assertion was used, and before `also` was written. */
  async function forgetUse({ iss, jti }: Claims, ...also: string[]): Promise<void> {
    const { store } = await openSystemStore(now().system);
    const keys = [`assertion:${String(iss)}\n${String(jti)}`, ...also];
    await Promise.all(keys.map((key) => store.delete(key)));
    await store.close();
  }

  return { now, claimsFor, present, vouch, obtain, forgetUse };
}

/** Of a trusted issuer, unless the settings give it another. */
export function idOf(issuer: string): string {
  return new URL(issuer).host;
}

function settings(idp: VouchingIssuer, second: VouchingIssuer) {
  const clients = [APP.id, OTHER.id, FORBIDDEN.id];
  return {
    entitlements: [
      { match: { subject: 'ada', provider: 'development' }, level: 'operations' },
      ...[idp, second].flatMap(({ issuer }) => [
        { match: { group: 'staff', provider: idOf(issuer) }, level: 'operations' },
        { match: { emailDomain: 'example.com', provider: idOf(issuer) }, level: 'admin' },
      ]),
    ],
    clients: { preRegistered: [APP, OTHER, FORBIDDEN, UNVOUCHED].map(inSettings) },
    authorization: {
      trustedIssuers: [
        { issuer: idp.issuer, jwks: { keys: [idp.jwk()] }, clients },
        { issuer: second.issuer, jwksUri: second.jwksUri, clients: [APP.id, UNVOUCHED.id] },
      ],
    },
  };
}
