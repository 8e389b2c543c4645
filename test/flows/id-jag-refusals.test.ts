import { expect } from 'chai';
import { decodeJwt, SignJWT, UnsecuredJWT } from 'jose';
import { ID_JAG_ERRORS, type IdJagErrorCode } from '../../src/oauth/engine/id-jag-validation.ts';
import {
  changeAccount,
  type Connector,
  createConnector,
  requestManagement,
  revokeConnector,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import type { Parameters } from '../support/oauth.ts';
import type { System } from '../support/system.ts';
import type { IdJagIssuer } from '../support/id-jag-issuer.ts';
import {
  APP,
  type Claims,
  FORBIDDEN,
  OTHER,
  preRegistered,
  SECOND_ISSUER_APP,
  useIdJag,
} from '../support/id-jag-system.ts';

describe('CNX-17 EMA-01 EMA-02 EMA-03 EMA-05 A refused ID-JAG', () => {
  const { setup, claimsFor, presentAssertion, obtainToken, forgetUse } = useIdJag();
  let system: System;
  let idp: IdJagIssuer;
  let silent: IdJagIssuer;
  let connector: Connector;
  before(() => {
    ({ system, idp, second: silent, connector } = setup());
  });

  type Refused = () => ReturnType<typeof presentAssertion>;
  const refusedFor =
    (claims: Claims, as = APP, more: Parameters = {}): Refused =>
    async () =>
      presentAssertion(await idp.sign(claimsFor('refused', claims)), as, more);
  const inSeconds =
    (from: number, to: number): Refused =>
    async () => {
      const now = Math.floor(Date.now() / 1000);
      return refusedFor({ iat: now + from, exp: now + to })();
    };
  /** `step_up_required` is in step-up-sign-in.test.ts. */
  const cases: Record<Exclude<IdJagErrorCode, 'step_up_required'>, Refused> = {
    malformed: () => presentAssertion('not.a.jwt'),
    wrong_type: async () => presentAssertion(await idp.sign(claimsFor('refused'), { typ: 'JWT' })),
    wrong_algorithm: async () =>
      presentAssertion(
        await new SignJWT(claimsFor('refused'))
          .setProtectedHeader({ alg: 'HS256', typ: 'oauth-id-jag+jwt' })
          .sign(Buffer.from(APP.secret ?? '')),
      ),
    unknown_issuer: refusedFor({ iss: 'https://login.example.org' }),
    bad_signature: async () => presentAssertion(await silent.sign(claimsFor('refused'))),
    missing_claim: refusedFor({ jti: undefined }),
    wrong_audience: async () => refusedFor({ aud: system.resource })(),
    expired: inSeconds(-400, -61),
    not_yet_valid: inSeconds(90, 300),
    too_long_lived: inSeconds(0, 3700),
    wrong_client: refusedFor({}, OTHER),
    client_not_trusted: async () =>
      presentAssertion(
        await idp.sign(claimsFor('refused', { client_id: SECOND_ISSUER_APP.id })),
        SECOND_ISSUER_APP,
      ),
    client_revoked: async () => {
      await requestManagement(system, 'POST', '/clients/revoke', { id: FORBIDDEN.id });
      return refusedFor({ client_id: FORBIDDEN.id }, FORBIDDEN)();
    },
    client_blocked: async () => {
      const block = { name: preRegistered(OTHER).name };
      const rule = await requestManagement(system, 'POST', '/client-rules', block);
      const refused = await refusedFor({ client_id: OTHER.id }, OTHER)();
      const { id } = rule as { id: string };
      await requestManagement(system, 'DELETE', `/client-rules/${id}`);
      return refused;
    },
    kept_out: async () => {
      const { claims, grantId } = await obtainToken('kept out');
      await requestManagement(system, 'DELETE', `/grants/${grantId}?keepOut=true`);
      expect(claims.grant_id).to.equal(grantId);
      return refusedFor({ sub: 'kept out' })();
    },
    wrong_tenant: refusedFor({ tenant: 'acme' }),
    unsupported_restriction: refusedFor({ cnf: { jkt: 'x' } }),
    unknown_resource: async () =>
      refusedFor({ resource: `${system.resource}/connect/${'a'.repeat(22)}/mcp` })(),
    unknown_parameter: async () =>
      refusedFor({ resource: undefined }, APP, {
        resource: `${system.resource}/connect/${'a'.repeat(22)}/mcp`,
      })(),
    no_resource: refusedFor({ resource: undefined }),
    several_resources: async () => {
      const { link } = await createConnector(system);
      return refusedFor({ resource: [connector.link, link] })();
    },
    other_resource: async () => {
      const { link } = await createConnector(system);
      return refusedFor({}, APP, { resource: link })();
    },
    connector_ended: async () => {
      const { id, link } = await createConnector(system);
      await revokeConnector(system, id);
      return refusedFor({ resource: link })();
    },
    connector_paused: async () => {
      const { id, link } = await createConnector(system);
      await requestManagement(system, 'PATCH', `/connectors/${id}`, { paused: true });
      return refusedFor({ resource: link })();
    },
    scope_without_level: refusedFor({ scope: 'openid' }),
    account_disabled: async () => {
      const { claims, token } = await obtainToken('disabled');
      await changeAccount(system, String(claims.sub), 'disable');
      const assertion = await idp.sign(claimsFor('disabled'));
      expect((await presentAssertion(assertion)).body.error).to.equal('invalid_grant');
      expect(await isAccepted(connector.link, token)).to.equal(false);
      await changeAccount(system, String(claims.sub), 'enable');
      // Issued before the revocation, so it ended with the other tokens.
      return presentAssertion(
        await idp.sign(claimsFor('disabled', { iat: Number(claims.iat) - 10 })),
      );
    },
    not_entitled: refusedFor({ groups: ['guests'] }),
    used_up: async () => {
      const { link } = await createConnector(system, { maxUses: 1 });
      await obtainToken('first', { resource: link });
      return refusedFor({ resource: link })();
    },
    replayed: async () => {
      const assertion = await idp.sign(claimsFor('replaying', { name: 'As it was' }));
      expect((await presentAssertion(assertion)).status).to.equal(200);
      const { claims } = await obtainToken('replaying', { name: 'As it is' });
      const refused = await presentAssertion(assertion);
      const account = await requestManagement(system, 'GET', `/accounts/${String(claims.sub)}`);
      expect(account).to.include({ name: 'As it is' });
      return refused;
    },
    grant_ended: async () => {
      const claims = claimsFor('forgotten');
      const assertion = await idp.sign(claims);
      const { body } = await presentAssertion(assertion);
      const { grant_id: grantId } = decodeJwt(body.access_token ?? '');
      await requestManagement(system, 'DELETE', `/grants/${String(grantId)}`);
      await forgetUse(claims);
      return presentAssertion(assertion);
    },
  };

  for (const [reason, refused] of Object.entries(cases)) {
    it(`EMA-01 EMA-02 an assertion is refused because of ${reason}, and nothing changes`, async () => {
      const { status, body, headers } = await refused();
      const { error, description } = ID_JAG_ERRORS[reason as IdJagErrorCode];
      expect([status, body]).to.deep.equal([400, { error, error_description: description }]);
      expect(headers.get('cache-control')).to.equal('no-store');
      const accounts = (await requestManagement(system, 'GET', '/accounts?limit=200')) as {
        items: { subject: string }[];
      };
      expect(accounts.items.map(({ subject }) => subject)).to.not.include('refused');
    });
  }

  it('EMA-01 an unsigned assertion is refused', async () => {
    const unsigned = new UnsecuredJWT(claimsFor('refused')).encode();
    expect((await presentAssertion(unsigned)).body.error).to.equal('invalid_grant');
  });
});
