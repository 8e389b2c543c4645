// Authorization codes (RFC 6749 section 4.1.3) and PKCE (RFC 7636).
import { expect } from 'chai';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { obtainCode, redeem, registerClient, requestAuthorization } from '../support/connection.ts';
import { type Parameters } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('A code challenge', () => {
  const system = useSystem();

  /** The page that answers the authorization request. Throws if the browser is redirected to the app. */
  async function pageFor(method: 'none' | 'client_secret_basic', more: Parameters) {
    const { link } = await createConnector(system());
    const { url } = await requestAuthorization(system(), { link }, { ...more }, method);
    return requirePage(await openBrowser(system().origins).visit(url));
  }

  for (const method of ['none', 'client_secret_basic'] as const) {
    it(`PKC-01 PKC-04 an authorization request without a valid code challenge is refused (${method})`, async () => {
      for (const more of [
        { code_challenge: undefined, code_challenge_method: undefined },
        { code_challenge: undefined },
        { code_challenge: '' },
        { code_challenge: 'x'.repeat(42) },
      ])
        expect((await pageFor(method, more)).status).to.equal(400);
    });
  }

  it('PKC-02 an authorization request with any code challenge method except S256 is refused', async () => {
    for (const more of ['plain', 's256', 'S512', '', undefined])
      expect((await pageFor('none', { code_challenge_method: more })).status).to.equal(400);
  });

  it('PKC-03 a missing or wrong verifier is refused, and the code stays valid', async () => {
    const code = await obtainCode(system(), await createConnector(system()));
    const { verifier } = code;
    const wrong = [
      undefined,
      '',
      'x',
      'x'.repeat(43),
      verifier.slice(0, -1),
      `${verifier}x`,
      verifier.toUpperCase(),
      [verifier, verifier],
    ];
    for (const code_verifier of wrong) {
      const { status, body } = await redeem(code, { code_verifier });
      expect(status, String(code_verifier)).to.equal(400);
      expect(body.error).to.be.oneOf(['invalid_grant', 'invalid_request']);
      expect(body).to.not.have.property('access_token');
    }
    expect((await redeem(code)).status).to.equal(200);
  });
});

describe('An authorization code', () => {
  const system = useSystem();

  it('PKC-05 a code stays valid when other clients present it or similar codes are presented', async () => {
    const code = await obtainCode(system(), await createConnector(system()));
    const other = await registerClient(code.server);
    const value = code.callback.searchParams.get('code') ?? '';
    for (let time = 0; time < 20; time += 1)
      expect((await redeem({ ...code, client: other })).body.error).to.equal('invalid_grant');
    const last = value.at(-1) === 'A' ? 'B' : 'A';
    for (const garbage of [
      value.slice(0, -1),
      value.slice(0, -1) + last,
      value.slice(0, 32),
      `${value}x`,
      `${value}~${value}`,
      value.toLowerCase(),
    ]) {
      const { body } = await redeem(code, { code: garbage });
      expect(body.error, garbage).to.equal('invalid_grant');
    }
    expect((await redeem(code)).status).to.equal(200);
  });

  it('COD-03 a code is long and bound to its client, redirect URI and resource', async () => {
    const connector = await createConnector(system());
    const other = await createConnector(system());
    const code = await obtainCode(system(), connector);
    const value = code.callback.searchParams.get('code') ?? '';
    expect(value.length).to.be.above(43);
    for (const more of [
      { redirect_uri: 'http://127.0.0.1:7071/callback' },
      { redirect_uri: 'http://localhost:7070/callback' },
      { resource: other.link },
      { client_id: 'nobody' },
    ])
      expect((await redeem(code, more)).status, JSON.stringify(more)).to.be.oneOf([400, 401]);
    expect((await redeem(code)).status).to.equal(200);
  });

  it('COD-05 a code is refused when its connect link was revoked before the exchange', async () => {
    const connector = await createConnector(system());
    const code = await obtainCode(system(), connector);
    await revokeConnector(system(), connector.id);
    const { status, body } = await redeem(code);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  });
});
