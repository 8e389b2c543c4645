// OpenID Connect Core section 3.1.3.7.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Connector } from '../support/management-api.ts';
import { requireExternalRedirect, requirePage } from '../support/browser.ts';
import { redeem } from '../support/connection.ts';
import type { Client, Server } from '../support/oauth.ts';
import type { Behaviour, OpenIdProvider } from '../support/openid-provider.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import type { System } from '../support/system.ts';
import { PERSON, useIdentityProvider } from '../support/identity-provider.ts';

describe('An ID token of the identity provider', () => {
  const { setup, newBrowser, redirectToProvider, expectRefused, isSignedIn } =
    useIdentityProvider();
  let provider: OpenIdProvider;
  let system: System;
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(() => {
    ({ provider, system, connector, server, client } = setup());
  });

  const past = Math.floor(Date.now() / 1000) - 600;
  const FORGERIES: Record<string, Behaviour> = {
    'with another nonce': { claims: { nonce: 'another' } },
    'without a nonce': { claims: { nonce: undefined } },
    'for another client': { claims: { aud: 'another' } },
    'for Gatehouse and another client, authorized for the other': {
      claims: { aud: ['gatehouse', 'another'], azp: 'another' },
    },
    'authorized for another client': { claims: { azp: 'another' } },
    'from another issuer': { claims: { iss: 'https://evil.example' } },
    'that has expired': { claims: { exp: past, iat: past - 300 } },
    'without an expiry': { claims: { exp: undefined } },
    'without a subject': { claims: { sub: undefined } },
    'without a signature': { signature: 'none' },
    'signed by another key': { signature: 'stranger' },
    'signed with the client secret': { signature: 'secret' },
    'that is not a JWT': { tokens: { id_token: 'x.y.z' } },
    'that is missing': { tokens: { id_token: undefined } },
  };
  for (const [what, behaviour] of Object.entries(FORGERIES)) {
    it(`IDP-02 an ID token ${what} is refused`, async () => {
      const browser = newBrowser();
      const { callback } = await redirectToProvider(browser);
      const { account: accounts, session: sessions } = await countStoredKeys(system);
      provider.setBehaviour({ ...behaviour, claims: { ...PERSON, ...behaviour.claims } });
      await expectRefused(browser, callback);
      const after = await countStoredKeys(system);
      expect([after.account, after.session]).to.deep.equal([accounts, sessions]);
      expect(await isSignedIn(browser)).to.equal(false);
    });
  }

  /** The subject of an access token of the person with these claims. */
  async function subjectOf(claims: object): Promise<unknown> {
    provider.setBehaviour({ claims: { ...PERSON, ...claims } });
    const browser = newBrowser();
    const { callback, verifier } = await redirectToProvider(browser);
    const page = requirePage(await browser.visit(callback));
    const answer = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    const code = { link: connector.link, server, client, callback: answer, verifier };
    const { body } = await redeem(code);
    return decodeJwt(body.access_token ?? '').sub;
  }

  it('IDP-04 a subject has one account, whatever its address', async () => {
    const one = await subjectOf({ sub: 'one' });
    expect(await subjectOf({ sub: 'one', email: 'new@example.com' })).to.equal(one);
    expect(await subjectOf({ sub: 'two' })).to.not.equal(one);
    expect(one).to.match(/^[\w-]{27}$/);
  });

  it("IDP-05 without recheck, the provider's tokens are neither stored nor sent to the browser or the app", async () => {
    const canaries = { access_token: 'canary-access-token', refresh_token: 'canary-refresh-token' };
    provider.setBehaviour({ claims: PERSON, tokens: canaries });
    const browser = newBrowser();
    const { callback, verifier } = await redirectToProvider(browser);
    const page = requirePage(await browser.visit(callback));
    const answer = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    const code = { link: connector.link, server, client, callback: answer, verifier };
    const { body } = await redeem(code);
    const stored = await readStoredBytes(system.storeAddress);
    const everything = [page.html, answer.href, JSON.stringify(body), JSON.stringify(browser.jar)];
    for (const text of [...everything, ...stored.map(({ bytes }) => bytes.toString('latin1'))])
      expect(text).to.not.match(/canary/);
    expect(decodeJwt(body.access_token ?? '')).to.not.have.any.keys('email', 'name');
  });

  it('IDP-08 a person whom no rule matches is refused', async () => {
    for (const claims of [
      { sub: 'x', email: 'ada@other.example' },
      { sub: 'y', email_verified: false },
      { sub: 'z', email: 'ada@example.com.evil.example' },
    ]) {
      provider.setBehaviour({ claims: { ...PERSON, ...claims } });
      const browser = newBrowser();
      await expectRefused(browser, (await redirectToProvider(browser)).callback, 403);
    }
  });
});
