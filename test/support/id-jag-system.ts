// A system that trusts two ID-JAG issuers, and clients that present their assertions.
import { decodeJwt } from 'jose';
import { type Connector, createConnector } from './management-api.ts';
import { restoreClock } from './clock.ts';
import {
  type Client,
  discover,
  type Parameters,
  requestToken,
  type TokenResponse,
} from './oauth.ts';
import { openSystemStore } from './system-store.ts';
import { startSystem, type System } from './system.ts';
import { validClaims, startIdJagIssuer, type IdJagIssuer } from './id-jag-issuer.ts';

export const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const REDIRECT = 'https://app.example.com/callback';

const client = (id: string): Client => ({
  id,
  secret: `the-secret-of-${id}-that-is-long-enough`,
  method: 'client_secret_basic',
  redirectUri: REDIRECT,
});
/** The first issuer is trusted for all clients but `SECOND_ISSUER_APP`, the second for `SECOND_ISSUER_APP` and `APP`. */
export const APP = client('app');
export const OTHER = client('other-app');
export const FORBIDDEN = client('forbidden');
export const SECOND_ISSUER_APP = client('second-issuer-app');

export type Claims = { [name: string]: unknown };

/** The client as a member of `clients.preRegistered`. */
export function preRegistered({ id, secret }: Client) {
  return { id, secret, name: `The ${id}`, redirectUris: [REDIRECT] };
}

export type IdJagSystem = {
  system: System;
  /** Its keys are in the settings, without `kid`, which its assertions have (RFC 7515 section 4.1.4). */
  idp: IdJagIssuer;
  /** Its keys are fetched. */
  second: IdJagIssuer;
  connector: Connector;
};

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useIdJag(
  authorization: Record<string, unknown> = {},
  /** Adds to the settings. */
  file: Record<string, unknown> = {},
) {
  let running: IdJagSystem | undefined;
  before(async () => {
    const [idp, second] = await Promise.all([startIdJagIssuer(), startIdJagIssuer()]);
    const system = await startSystem({
      file: { ...settings(idp, second, authorization), ...file },
    });
    running = { system, idp, second, connector: await createConnector(system) };
  });
  afterEach(restoreClock);
  after(async () => {
    await running?.system.stop();
    await Promise.all([running?.idp.stop(), running?.second.stop()]);
  });
  const setup = (): IdJagSystem => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };

  /** The claims of a valid assertion of the first issuer. */
  function claimsFor(sub: string, more: Claims = {}): Claims {
    const { system, idp, connector } = setup();
    const parties = { aud: system.auth, client_id: APP.id, resource: connector.link };
    return { ...validClaims(idp.issuer), ...parties, sub, groups: ['staff'], ...more };
  }

  async function presentAssertion(
    assertion: string,
    as = APP,
    more: Parameters = {},
  ): Promise<TokenResponse> {
    const { server } = await discover(setup().connector.link);
    return requestToken(server, as, { grant_type: GRANT_TYPE, assertion, ...more });
  }

  async function signAndPresent(sub: string, more: Claims = {}, parameters: Parameters = {}) {
    return presentAssertion(await setup().idp.sign(claimsFor(sub, more)), APP, parameters);
  }

  /** Throws if the assertion is refused. */
  async function obtainToken(sub: string, more: Claims = {}, parameters: Parameters = {}) {
    const { body } = await signAndPresent(sub, more, parameters);
    if (!body.access_token) throw new Error(JSON.stringify(body));
    const claims = decodeJwt(body.access_token);
    return { body, token: body.access_token, grantId: String(claims.grant_id), claims };
  }

  /** Deletes the record of an assertion's use and the keys `also`, as if the process had ended before writing them. */
  async function forgetUse({ iss, jti }: Claims, ...also: string[]): Promise<void> {
    const { store } = await openSystemStore(setup().system);
    const keys = [`assertion:${String(iss)}\n${String(jti)}`, ...also];
    await Promise.all(keys.map((key) => store.delete(key)));
    await store.close();
  }

  return { setup, claimsFor, presentAssertion, signAndPresent, obtainToken, forgetUse };
}

/** The id of a trusted issuer, unless the settings set another. */
export function idOf(issuer: string): string {
  return new URL(issuer).host;
}

function settings(idp: IdJagIssuer, second: IdJagIssuer, authorization: Record<string, unknown>) {
  const clients = [APP.id, OTHER.id, FORBIDDEN.id];
  return {
    entitlements: [
      { match: { subject: 'ada', provider: 'development' }, level: 'operations' },
      ...[idp, second].flatMap(({ issuer }) => [
        { match: { group: 'staff', provider: idOf(issuer) }, level: 'operations' },
        { match: { emailDomain: 'example.com', provider: idOf(issuer) }, level: 'admin' },
      ]),
    ],
    clients: { preRegistered: [APP, OTHER, FORBIDDEN, SECOND_ISSUER_APP].map(preRegistered) },
    authorization: {
      ...authorization,
      trustedIssuers: [
        { issuer: idp.issuer, jwks: { keys: [{ ...idp.jwk(), kid: undefined }] }, clients },
        { issuer: second.issuer, jwksUri: second.jwksUri, clients: [APP.id, SECOND_ISSUER_APP.id] },
      ],
    },
  };
}
