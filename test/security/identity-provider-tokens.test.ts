// The ID tokens of the identity provider (OpenID Connect Core section 3.1.3.7): which are refused, whom they sign in, and that they stay nowhere.
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

describe('What comes back from the identity provider', () => {
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
    'for us and another, at the other’s request': {
      claims: { aud: ['gatehouse', 'another'], azp: 'another' },
    },
    'at another’s request': { claims: { azp: 'another' } },
    'from another issuer': { claims: { iss: 'https://evil.example' } },
    'that expired': { claims: { exp: past, iat: past - 300 } },
    'without an end': { claims: { exp: undefined } },
    'without a subject': { claims: { sub: undefined } },
    'without a signature': { signature: 'none' },
    'signed by another key': { signature: 'stranger' },
    'signed with our secret': { signature: 'secret' },
    'that is no token': { tokens: { id_token: 'x.y.z' } },
    'that is not there': { tokens: { id_token: undefined } },
  };
  for (const [what, behaviour] of Object.entries(FORGERIES)) {
    it(`IDP-02 signs nobody in with an ID token ${what}`, async () => {
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

  /** The subject of a token for whoever the claims say. */
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

  it('IDP-04 makes one account of a subject, never of an address', async () => {
    const one = await subjectOf({ sub: 'one' });
    expect(await subjectOf({ sub: 'one', email: 'new@example.com' })).to.equal(one);
    expect(await subjectOf({ sub: 'two' })).to.not.equal(one);
    expect(String(one)).to.not.match(/one|ada/);
  });

  it('IDP-05 leaves none of its tokens with us or the app', async () => {
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

  it('IDP-08 lets in nobody whom no rule names', async () => {
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
