// An app that an identity provider vouches for may prove a key, too: its access token is then bound to it (RFC 9449 section 5).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { moveClock } from '../support/clock.ts';
import { callBound, type Lies, openProofKey, type ProofKey, proofOf } from '../support/dpop.ts';
import { discover, requestToken, type TokenAnswer } from '../support/oauth.ts';
import { APP, GRANT_TYPE, useVouching } from '../support/vouching-system.ts';

describe('An app with an assertion and a key', () => {
  const { now, claimsFor } = useVouching();
  let key: ProofKey;
  before(async () => {
    key = await openProofKey();
  });

  async function present(proof: string, assertion?: string): Promise<TokenAnswer> {
    const { server } = await discover(now().connector.link);
    const fresh = await now().idp.sign(claimsFor('ada'));
    const parameters = { grant_type: GRANT_TYPE, assertion: assertion ?? fresh };
    return requestToken(server, APP, parameters, { dpop: proof });
  }

  const prove = (lies: Lies = {}) =>
    proofOf(key, { url: `${now().system.auth}/oauth/token` }, lies);

  it('gets a bound access token, which is good with the key', async () => {
    const { status, body } = await present(await prove());
    expect([status, body.token_type]).to.deep.equal([200, 'DPoP']);
    const accessToken = body.access_token ?? '';
    expect(decodeJwt(accessToken).cnf).to.deep.equal({ jkt: key.thumbprint });
    const { link } = now().connector;
    expect((await callBound({ key, link, accessToken })).status).to.equal(200);
    const other = await openProofKey();
    expect((await callBound({ key: other, link, accessToken })).status).to.equal(401);
  });

  it('is refused with a wrong or used proof, and may present the assertion again with a good one', async () => {
    const assertion = await now().idp.sign(claimsFor('grace'));
    const used = await prove();
    expect((await present(used)).status).to.equal(200);
    const good = await prove();
    for (const wrong of [
      used,
      'x',
      `${good}, ${good}`,
      await prove({ claims: { htm: 'GET' } }),
      await prove({ claims: { htu: now().system.auth } }),
    ]) {
      const { status, body } = await present(wrong, assertion);
      expect([status, body.error]).to.deep.equal([400, 'invalid_dpop_proof']);
    }
    expect((await present(good, assertion)).status).to.equal(200);
  });

  it('is asked for a nonce when its clock is wrong', async () => {
    const assertion = await now().idp.sign(claimsFor('alan'));
    const iat = Math.floor(Date.now() / 1000) - 4000;
    const asked = await present(await prove({ claims: { iat } }), assertion);
    expect([asked.status, asked.body.error]).to.deep.equal([400, 'use_dpop_nonce']);
    const nonce = asked.headers.get('dpop-nonce');
    const { status } = await present(await prove({ claims: { iat, nonce } }), assertion);
    expect(status).to.equal(200);
    moveClock(300);
    const late = await present(await prove({ claims: { iat, nonce } }));
    expect(late.body.error).to.equal('use_dpop_nonce');
  });
});
