// RFC 9700 section 4.7.
import { expect } from 'chai';
import {
  isConsentPage,
  describePage,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import type { OpenIdProvider } from '../support/openid-provider.ts';
import { rawRequest } from '../support/raw-request.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import type { System } from '../support/system.ts';
import { useIdentityProvider } from '../support/identity-provider.ts';

describe('The callback from the identity provider', () => {
  const { setup, newBrowser, redirectToProvider, expectRefused, isSignedIn } =
    useIdentityProvider();
  let provider: OpenIdProvider;
  let system: System;
  before(() => {
    ({ provider, system } = setup());
  });

  it('IDP-01 IDP-09 a callback works only in the browser that started the sign-in, and changes no other', async () => {
    const attacker = newBrowser();
    const { callback, redirect } = await redirectToProvider(attacker);
    const victim = newBrowser();
    const own = await redirectToProvider(victim);
    expect(isConsentPage(requirePage(await victim.visit(own.callback)))).to.equal(true);
    const before = JSON.stringify(victim.jar);
    await expectRefused(victim, callback);
    expect(JSON.stringify(victim.jar)).to.equal(before);
    expect(await isSignedIn(victim)).to.equal(true);
    const otherBrowser = newBrowser();
    await expectRefused(otherBrowser, callback);
    expect(await isSignedIn(otherBrowser)).to.equal(false);
    provider.approve(redirect);
    expect(isConsentPage(requirePage(await attacker.visit(callback)))).to.equal(true);
  });

  it('IDP-01 a callback is single-use and expires after ten minutes', async () => {
    const browser = newBrowser();
    const { callback } = await redirectToProvider(browser);
    const exchanged = provider.exchanges.length;
    const pages = await Promise.all([1, 2].map(() => browser.visit(callback)));
    const statuses = pages.map((page) => requirePage(page).status);
    expect(statuses.toSorted()).to.deep.equal([200, 400]);
    await expectRefused(browser, callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);

    const late = newBrowser();
    const expired = await redirectToProvider(late);
    advanceClock(601);
    await expectRefused(late, expired.callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);
  });

  it('IDP-01 an interaction has one login state record of bounded size, however often its page is loaded', async () => {
    const browser = newBrowser();
    const { interactionUrl } = await redirectToProvider(browser);
    const before = await countStoredKeys(system);
    const size = async () => {
      const records = await readStoredBytes(system.storeAddress, 'sign-in:');
      return records.reduce((sum, { bytes }) => sum + bytes.length, 0);
    };
    const sizes: number[] = [];
    for (let time = 0; time < 12; time += 1) {
      requireExternalRedirect(await browser.visit(interactionUrl));
      sizes.push(await size());
    }
    expect(await countStoredKeys(system)).to.deep.equal(before);
    expect(sizes.at(-1)).to.be.lessThan(Number(sizes[6]) + 50);
  });

  it('IDP-01 a browser has one login state record for the account page, and it works in every tab', async () => {
    const browser = newBrowser();
    const first = requireExternalRedirect(await browser.visit(`${system.auth}/account`));
    const before = await countStoredKeys(system);
    for (let time = 0; time < 3; time += 1)
      requireExternalRedirect(await browser.visit(`${system.auth}/account`));
    expect(await countStoredKeys(system)).to.deep.equal(before);
    const page = requirePage(await browser.visit(provider.approve(first)));
    expect(page.url.pathname, describePage(page)).to.equal('/account');
    expect(page.status).to.equal(200);
  });

  it('IDP-01 a callback started before a reload works once, until its own ten minutes are over', async () => {
    const browser = newBrowser();
    const { redirect, interactionUrl } = await redirectToProvider(browser);
    requireExternalRedirect(await browser.visit(interactionUrl));
    const first = provider.approve(redirect);
    expect(isConsentPage(requirePage(await browser.visit(first)))).to.equal(true);
    await expectRefused(browser, first);

    const reloading = newBrowser();
    const earlier = await redirectToProvider(reloading);
    advanceClock(400);
    const reloaded = requireExternalRedirect(await reloading.visit(earlier.interactionUrl));
    expect(reloaded.search).not.to.equal(earlier.redirect.search);
    advanceClock(201);
    await expectRefused(reloading, provider.approve(earlier.redirect));
    const late = provider.approve(reloaded);
    expect(isConsentPage(requirePage(await reloading.visit(late)))).to.equal(true);
  });

  it('IDP-01 a callback with a guessed state is refused', async () => {
    const states = [];
    for (let time = 0; time < 3; time += 1)
      states.push(
        (await redirectToProvider(newBrowser())).callback.searchParams.get('state') ?? '',
      );
    for (const state of states) expect(state.split('.')[1]).to.have.length.of.at.least(43);
    expect(new Set(states).size).to.equal(3);
    const browser = newBrowser();
    const { callback } = await redirectToProvider(browser);
    const [uid] = (callback.searchParams.get('state') ?? '').split('.');
    for (const state of [`${uid}.${'x'.repeat(43)}`, `${uid}.`, String(uid), '', '../x']) {
      callback.searchParams.set('state', state);
      await expectRefused(browser, callback);
    }
  });

  it('IDP-03 a callback that names another issuer is refused before the code is sent', async () => {
    const browser = newBrowser();
    const exchanged = provider.exchanges.length;
    await expectRefused(
      browser,
      (await redirectToProvider(browser, { iss: 'https://evil.example' })).callback,
    );
    expect(provider.exchanges).to.have.length(exchanged);
    const right = await redirectToProvider(browser, { iss: provider.issuer });
    expect(isConsentPage(requirePage(await browser.visit(right.callback)))).to.equal(true);
  });

  it('IDP-06 an error of the provider is shown without its text, and the sign-in can be repeated', async () => {
    const browser = newBrowser();
    const { callback, interactionUrl } = await redirectToProvider(browser);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', '<script>alert(1)</script>');
    callback.searchParams.set('error_description', '"><img src=x onerror=alert(1)>canary');
    callback.searchParams.set('error_uri', 'javascript:alert(1)');
    const page = await expectRefused(browser, callback);
    expect(page.html).to.not.match(/<script|<img|javascript:|canary|alert/);
    expect(requireExternalRedirect(await browser.visit(interactionUrl)).origin).to.equal(
      provider.issuer,
    );
  });

  it('IDP-07 the redirect URI comes from the settings, whatever the request headers are', async () => {
    const browser = newBrowser();
    const { callback } = await redirectToProvider(browser);
    const { status } = await rawRequest(system.auth, {
      path: callback.pathname + callback.search,
      headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example' },
    });
    expect(status).to.equal(421);
    requirePage(await browser.visit(callback));
    expect(provider.exchanges.at(-1)?.get('redirect_uri')).to.equal(
      `${system.auth}/interaction/callback`,
    );
    expect(provider.exchanges.at(-1)?.get('code_verifier')).to.have.length.of.at.least(43);
  });
});
