import { expect } from 'chai';
import {
  isConsentPage,
  type Browser,
  describePage,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import type { OpenIdProvider } from '../support/openid-provider.ts';
import type { System } from '../support/system.ts';
import { isProviderChoicePage, useIdentityProviders } from '../support/identity-providers.ts';

const COOKIE = 'gatehouse-provider';

describe('The choice among several identity providers', () => {
  const {
    setup,
    newBrowser,
    startAuthorization,
    chooseProvider,
    callbackFrom,
    signIn,
    expectRefused,
  } = useIdentityProviders();
  let example: OpenIdProvider;
  let partners: OpenIdProvider;
  let system: System;
  before(() => {
    ({ example, partners, system } = setup());
  });

  const remembered = ({ jar }: Browser) => jar.find(({ name }) => name === COOKIE)?.value;

  it('the choice lists providers in the order of the settings, and each has its own callback', async () => {
    for (const id of ['example', 'partners', 'github']) {
      const browser = newBrowser();
      const page = requirePage((await startAuthorization(browser)).step);
      const names = [...page.html.matchAll(/name="provider" value="(\w+)"/g)].map(([, n]) => n);
      expect(names).to.deep.equal(['example', 'partners', 'github', 'away']);
      expect(page.headers.get('cache-control')).to.equal('no-store');
      const { searchParams } = requireExternalRedirect(await chooseProvider(browser, page, id));
      expect(searchParams.get('redirect_uri')).to.equal(
        `${system.auth}/interaction/callback/${id}`,
      );
    }
  });

  it('ENT-09 each provider signs people in, and the consent page names it, and only addresses of its own domain', async () => {
    for (const [id, name, email] of [
      ['example', 'Example Corp', 'ada@example.com'],
      ['partners', 'Partners', undefined],
      ['github', 'GitHub', undefined],
    ] as const) {
      const { page } = await signIn(newBrowser(), id);
      expect(isConsentPage(page), describePage(page)).to.equal(true);
      expect(page.html).to.include(name);
      // The domain belongs to the first provider.
      expect(/ada@example\.com/.exec(page.html)?.[0], id).to.equal(email);
    }
  });

  it('a login_hint in a domain of a provider skips the choice and is passed on', async () => {
    const browser = newBrowser();
    const departure = requireExternalRedirect(
      (await startAuthorization(browser, { login_hint: 'Ada@EXAMPLE.com' })).step,
    );
    expect(departure.origin).to.equal(example.issuer);
    expect(departure.searchParams.get('login_hint')).to.equal('Ada@EXAMPLE.com');
    for (const hint of [
      'ada@example.org',
      'ada',
      '@',
      'ada@example.com.evil.example',
      'a'.repeat(999),
    ])
      expect(
        isProviderChoicePage(
          requirePage((await startAuthorization(newBrowser(), { login_hint: hint })).step),
        ),
      ).to.equal(true);
  });

  it('IDP-15 a login_hint is not passed on to a provider that owns other domains', async () => {
    const browser = newBrowser();
    const page = requirePage(
      (await startAuthorization(browser, { login_hint: 'ada@example.org' })).step,
    );
    const atGithub = requireExternalRedirect(await chooseProvider(browser, page, 'github'));
    expect(atGithub.searchParams.get('login')).to.equal('ada@example.org');
    const other = newBrowser();
    const choice = requirePage(
      (await startAuthorization(other, { login_hint: 'x@away.example' })).step,
    );
    expect(isProviderChoicePage(choice)).to.equal(true);
    const atPartners = requireExternalRedirect(await chooseProvider(other, choice, 'partners'));
    expect(atPartners.searchParams.has('login_hint')).to.equal(false);
  });

  it('a cookie holds the id of the last provider, and the choice marks it', async () => {
    const browser = newBrowser();
    await signIn(browser, 'partners');
    expect(remembered(browser)).to.equal('partners');
    const { step } = await startAuthorization(browser, { prompt: 'login' });
    const page = requirePage(step);
    const marked = (html: string) => /value="(\w+)"(?:(?!<\/button>)[^])*Last used/.exec(html);
    expect(page.html.match(/Last used/g)).to.have.length(1);
    expect(marked(page.html.slice(page.html.indexOf('value="partners"')))?.[1]).to.equal(
      'partners',
    );
    const departure = requireExternalRedirect(await chooseProvider(browser, page, 'example'));
    expect(departure.searchParams.get('prompt')).to.equal('login');
    requirePage(await browser.visit(callbackFrom('example', departure)));
    expect(remembered(browser)).to.equal('example');
  });

  it('IDP-15 a failed sign-in is not remembered, and a forged cookie has no effect', async () => {
    const browser = newBrowser();
    const page = requirePage((await startAuthorization(browser)).step);
    await chooseProvider(browser, page, 'away');
    expect(remembered(browser)).to.equal(undefined);
    await signIn(browser, 'partners');
    for (const value of ['nobody', '%3Cscript%3E', '']) {
      for (const cookie of browser.jar) if (cookie.name === COOKIE) cookie.value = value;
      const again = requirePage((await startAuthorization(browser, { prompt: 'login' })).step);
      expect(again.status).to.equal(200);
      expect(again.html).to.not.match(/Last used|<script/);
    }
  });

  it('switching accounts shows the choice again', async () => {
    const browser = newBrowser();
    const { page } = await signIn(browser, 'example');
    const choice = requirePage(await browser.submit(page, { decision: 'switch' }));
    expect(choice.url.pathname).to.match(/^\/interaction\/[^/]+\/sign-in$/);
    const departure = requireExternalRedirect(await chooseProvider(browser, choice, 'github'));
    expect(departure.searchParams.get('prompt')).to.equal('select_account');
    const consent = requirePage(await browser.visit(callbackFrom('github', departure)));
    expect(isConsentPage(consent), describePage(consent)).to.equal(true);
    expect(consent.html).to.include('GitHub');
  });

  it('IDP-10 the choice says that a provider is unreachable, and the other providers work', async () => {
    const browser = newBrowser();
    const page = requirePage((await startAuthorization(browser)).step);
    const refused = requirePage(await chooseProvider(browser, page, 'away'));
    expect(refused.status).to.equal(503);
    expect(refused.headers.get('retry-after')).to.match(/^\d+$/);
    expect(refused.html).to.match(/Away.{0,40}is unavailable/);
    const departure = requireExternalRedirect(await chooseProvider(browser, refused, 'github'));
    const consent = requirePage(await browser.visit(callbackFrom('github', departure)));
    expect(isConsentPage(consent)).to.equal(true);
  });

  it('IDP-06 the choice says that a sign-in failed or was cancelled, without text of the provider', async () => {
    const browser = newBrowser();
    const page = requirePage((await startAuthorization(browser)).step);
    const stopped = callbackFrom(
      'partners',
      requireExternalRedirect(await chooseProvider(browser, page, 'partners')),
    );
    stopped.searchParams.delete('code');
    stopped.searchParams.set('error', 'access_denied');
    stopped.searchParams.set('error_description', '<script>canary');
    const refused = requirePage(await browser.visit(stopped));
    expect([refused.status, isProviderChoicePage(refused)]).to.deep.equal([400, true]);
    expect(refused.html)
      .to.include('was canceled or refused')
      .and.to.not.match(/canary|<script/);
    const next = callbackFrom(
      'partners',
      requireExternalRedirect(await chooseProvider(browser, refused, 'partners')),
    );
    partners.setBehaviour({ tokenStatus: 503 });
    const failed = requirePage(await browser.visit(next));
    expect([failed.status, isProviderChoicePage(failed)]).to.deep.equal([503, true]);
    const last = callbackFrom(
      'example',
      requireExternalRedirect(await chooseProvider(browser, failed, 'example')),
    );
    expect(isConsentPage(requirePage(await browser.visit(last)))).to.equal(true);
  });

  it('the account page offers the same choice', async () => {
    const browser = newBrowser();
    const page = requirePage(await browser.visit(`${system.auth}/account`));
    const departure = requireExternalRedirect(await chooseProvider(browser, page, 'github'));
    const back = callbackFrom('github', departure);
    const foreign = new URL(back.href.replace('/callback/github', '/callback/partners'));
    await expectRefused(browser, foreign, 400);
    const apps = requirePage(await browser.visit(back));
    expect([apps.status, apps.url.pathname]).to.deep.equal([200, '/account']);
    expect(apps.html).to.include('GitHub');
    const switching = requirePage(await browser.visit(`${system.auth}/account/sign-in`));
    const asked = requireExternalRedirect(await chooseProvider(browser, switching, 'github'));
    expect(asked.searchParams.get('prompt')).to.equal('select_account');
  });
});
