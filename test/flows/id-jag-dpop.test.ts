// RFC 9449 section 5.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { obtainCode } from '../support/connection.ts';
import {
  callBound,
  connectBound,
  type ProofOverrides,
  generateProofKey,
  statusAndError,
  type ProofKey,
  createProof,
  redeemBound,
  refreshBound,
} from '../support/dpop.ts';
import { showGrant } from '../support/management-api.ts';
import { discover, requestToken, type TokenResponse } from '../support/oauth.ts';
import { APP, GRANT_TYPE, useIdJag } from '../support/id-jag-system.ts';

describe('An ID-JAG request with a DPoP proof', () => {
  const { setup, claimsFor } = useIdJag();
  let key: ProofKey;
  before(async () => {
    key = await generateProofKey();
  });

  async function present(proof: string, assertion?: string): Promise<TokenResponse> {
    const { server } = await discover(setup().connector.link);
    const fresh = await setup().idp.sign(claimsFor('ada'));
    const parameters = { grant_type: GRANT_TYPE, assertion: assertion ?? fresh };
    return requestToken(server, APP, parameters, { dpop: proof });
  }

  const prove = (overrides: ProofOverrides = {}) =>
    createProof(key, { url: `${setup().system.auth}/oauth/token` }, overrides);

  it("the access token is bound to the proof's key", async () => {
    const { status, body } = await present(await prove());
    expect([status, body.token_type]).to.deep.equal([200, 'DPoP']);
    const accessToken = body.access_token ?? '';
    expect(decodeJwt(accessToken).cnf).to.deep.equal({ jkt: key.thumbprint });
    const { link } = setup().connector;
    expect((await callBound({ key, link, accessToken })).status).to.equal(200);
    const other = await generateProofKey();
    expect((await callBound({ key: other, link, accessToken })).status).to.equal(401);
  });

  it('a wrong or reused proof is rejected, and the assertion can be presented again with a good proof', async () => {
    const assertion = await setup().idp.sign(claimsFor('grace'));
    const used = await prove();
    expect((await present(used)).status).to.equal(200);
    const good = await prove();
    for (const wrong of [
      used,
      'x',
      `${good}, ${good}`,
      await prove({ claims: { htm: 'GET' } }),
      await prove({ claims: { htu: setup().system.auth } }),
    ]) {
      const { status, body } = await present(wrong, assertion);
      expect([status, body.error]).to.deep.equal([400, 'invalid_dpop_proof']);
    }
    expect((await present(good, assertion)).status).to.equal(200);
  });

  /** Requests of three grant types, each with its own valid credential. */
  async function requests(): Promise<Record<string, (proof: string) => Promise<TokenResponse>>> {
    const { system, connector } = setup();
    const earlier = await connectBound(system, connector, { key, as: { client: APP } });
    const code = await obtainCode(system, connector, { as: { client: APP } });
    const assertion = await setup().idp.sign(claimsFor('ada'));
    return {
      authorization_code: (proof) => redeemBound(key, code, proof),
      refresh_token: (proof) => refreshBound(earlier, { proof }),
      'jwt-bearer': (proof) => present(proof, assertion),
    };
  }

  for (const first of ['authorization_code', 'refresh_token', 'jwt-bearer'])
    it(`AUD-13 a proof that was used for ${first} is rejected for every grant type`, async () => {
      const { [first]: use, ...others } = await requests();
      const proof = await prove();
      expect((await use?.(proof))?.status).to.equal(200);
      for (const [grantType, again] of Object.entries(others)) {
        const refused = await again(proof);
        expect(statusAndError(refused), grantType).to.deep.equal([400, 'invalid_dpop_proof']);
        expect(refused.body.error_description, grantType).to.match(/already used/);
        expect((await again(await prove())).status, grantType).to.equal(200);
      }
    });

  it('AUD-13 of concurrent requests of every grant type with one proof, one succeeds', async () => {
    const racing = Object.values(await requests());
    const proof = await prove();
    const answers = await Promise.all(racing.map((request) => request(proof)));
    expect(answers.map(({ status }) => status).toSorted()).to.deep.equal([200, 400, 400]);
  });

  it('AUD-13 a proof that one client used is rejected for every client', async () => {
    const { system, connector } = setup();
    const proof = await prove();
    const mine = await connectBound(system, connector, { key });
    const others = await connectBound(system, connector, { key });
    expect((await refreshBound(mine, { proof })).status).to.equal(200);
    expect(statusAndError(await refreshBound(others, { proof }))).to.deep.equal([
      400,
      'invalid_dpop_proof',
    ]);
  });

  it('AUD-13 a proof for the token endpoint is rejected for a call, and a proof for a connect link at the token endpoint', async () => {
    const { system, connector } = setup();
    const bound = await connectBound(system, connector, { key });
    const { link } = connector;
    const forToken = await createProof(key, {
      url: bound.server.token_endpoint,
      token: bound.accessToken,
    });
    expect((await callBound(bound, { more: { dpop: forToken } })).status).to.equal(401);
    const forCall = await createProof(key, { url: link, token: bound.accessToken });
    expect(statusAndError(await refreshBound(bound, { proof: forCall }))).to.deep.equal([
      400,
      'invalid_dpop_proof',
    ]);
    expect((await callBound(bound, { more: { dpop: forCall } })).status).to.equal(200);
    expect((await callBound(bound, { more: { dpop: forCall } })).status).to.equal(401);
  });
});

describe('ID-JAG at a level that requires DPoP', () => {
  const { setup, claimsFor, signAndPresent } = useIdJag({
    requireDpop: 'operations',
  });

  it('AUD-14 an assertion without a proof gets the next lower level, and the same person with a proof gets the level', async () => {
    const unbound = await signAndPresent('ada');
    expect([unbound.status, unbound.body.scope]).to.deep.equal([200, 'analytics']);
    const { system, connector, idp } = setup();
    const key = await generateProofKey();
    const proof = await createProof(key, { url: `${system.auth}/oauth/token` });
    const { server } = await discover(connector.link);
    const parameters = { grant_type: GRANT_TYPE, assertion: await idp.sign(claimsFor('ada')) };
    const bound = await requestToken(server, APP, parameters, { dpop: proof });
    expect([bound.status, bound.body.scope]).to.deep.equal([200, 'operations']);
    const levels = [unbound, bound].map(async ({ body }) => {
      const grantId = String(decodeJwt(body.access_token ?? '').grant_id);
      return (await showGrant(system, grantId)).level;
    });
    expect(await Promise.all(levels)).to.deep.equal(['analytics', 'operations']);
  });
});
