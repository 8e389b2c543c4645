// What comes back from the identity provider (OpenID Connect Core section 3.1.3.7, RFC 9700 section 4.7): counts in one browser, once.
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

describe('What comes back from the identity provider', () => {
  const { setup, newBrowser, redirectToProvider, expectRefused, isSignedIn } =
    useIdentityProvider();
  let provider: OpenIdProvider;
  let system: System;
  before(() => {
    ({ provider, system } = setup());
  });

  it('IDP-01 IDP-09 counts only in the browser that left, whoever is signed in elsewhere', async () => {
    const attacker = newBrowser();
    const { callback, departure } = await redirectToProvider(attacker);
    const victim = newBrowser();
    const own = await redirectToProvider(victim);
    expect(isConsentPage(requirePage(await victim.visit(own.callback)))).to.equal(true);
    const before = JSON.stringify(victim.jar);
    await expectRefused(victim, callback);
    expect(JSON.stringify(victim.jar)).to.equal(before);
    expect(await isSignedIn(victim)).to.equal(true);
    const stranger = newBrowser();
    await expectRefused(stranger, callback);
    expect(await isSignedIn(stranger)).to.equal(false);
    provider.approve(departure);
    expect(isConsentPage(requirePage(await attacker.visit(callback)))).to.equal(true);
  });

  it('IDP-01 counts once, one of two at a time, and for ten minutes', async () => {
    const browser = newBrowser();
    const { callback } = await redirectToProvider(browser);
    const exchanged = provider.exchanges.length;
    const pages = await Promise.all([1, 2].map(() => browser.visit(callback)));
    const statuses = pages.map((page) => requirePage(page).status);
    expect(statuses.toSorted()).to.deep.equal([200, 400]);
    await expectRefused(browser, callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);

    const late = newBrowser();
    const trip = await redirectToProvider(late);
    advanceClock(601);
    await expectRefused(late, trip.callback);
    expect(provider.exchanges).to.have.length(exchanged + 1);
  });

  it('IDP-01 is waited for in one record of each flow, however often its page is loaded', async () => {
    const browser = newBrowser();
    const { flow } = await redirectToProvider(browser);
    const before = await countStoredKeys(system);
    const size = async () => {
      const records = await readStoredBytes(system.storeAddress, 'sign-in:');
      return records.reduce((sum, { bytes }) => sum + bytes.length, 0);
    };
    const sizes: number[] = [];
    for (let time = 0; time < 12; time += 1) {
      requireExternalRedirect(await browser.visit(flow));
      sizes.push(await size());
    }
    expect(await countStoredKeys(system)).to.deep.equal(before);
    expect(sizes.at(-1)).to.be.lessThan(Number(sizes[6]) + 50);
  });

  it('IDP-01 is waited for in one record of each browser outside of flows, in each of its tabs', async () => {
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

  it('IDP-01 counts in the tab from before a reload too, once, and for its own ten minutes', async () => {
    const browser = newBrowser();
    const { departure, flow } = await redirectToProvider(browser);
    requireExternalRedirect(await browser.visit(flow));
    const first = provider.approve(departure);
    expect(isConsentPage(requirePage(await browser.visit(first)))).to.equal(true);
    await expectRefused(browser, first);

    const patient = newBrowser();
    const early = await redirectToProvider(patient);
    advanceClock(400);
    const reloaded = requireExternalRedirect(await patient.visit(early.flow));
    expect(reloaded.search).not.to.equal(early.departure.search);
    advanceClock(201);
    await expectRefused(patient, provider.approve(early.departure));
    const late = provider.approve(reloaded);
    expect(isConsentPage(requirePage(await patient.visit(late)))).to.equal(true);
  });

  it('IDP-01 has a state that nobody guesses', async () => {
    const states = [];
    for (let time = 0; time < 3; time += 1)
      states.push(
        (await redirectToProvider(newBrowser())).callback.searchParams.get('state') ?? '',
      );
    for (const state of states) expect(state.split('.')[1]).to.have.length.of.at.least(43);
    expect(new Set(states).size).to.equal(3);
    const browser = newBrowser();
    const { callback } = await redirectToProvider(browser);
    const [flow] = (callback.searchParams.get('state') ?? '').split('.');
    for (const state of [`${flow}.${'x'.repeat(43)}`, `${flow}.`, String(flow), '', '../x']) {
      callback.searchParams.set('state', state);
      await expectRefused(browser, callback);
    }
  });

  it('IDP-03 is refused when it names another issuer, before any code is sent there', async () => {
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

  it('IDP-06 that is an error is told in our words, and may be tried again', async () => {
    const browser = newBrowser();
    const { callback, flow } = await redirectToProvider(browser);
    callback.searchParams.delete('code');
    callback.searchParams.set('error', '<script>alert(1)</script>');
    callback.searchParams.set('error_description', '"><img src=x onerror=alert(1)>canary');
    callback.searchParams.set('error_uri', 'javascript:alert(1)');
    const page = await expectRefused(browser, callback);
    expect(page.html).to.not.match(/<script|<img|javascript:|canary|alert/);
    expect(requireExternalRedirect(await browser.visit(flow)).origin).to.equal(provider.issuer);
  });

  it('IDP-07 comes to the address of the settings, whatever a request said', async () => {
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
