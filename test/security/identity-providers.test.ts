// Mix-up of several identity providers (RFC 9700 section 4.4).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  isConsentPage,
  describePage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { redeem } from '../support/connection.ts';
import type { Github } from '../support/github.ts';
import type { OpenIdProvider } from '../support/openid-provider.ts';
import type { System } from '../support/system.ts';
import { PERSON, useIdentityProviders } from '../support/identity-providers.ts';

describe('Several identity providers', () => {
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
  let github: Github;
  let system: System;
  before(() => {
    ({ example, partners, github, system } = setup());
  });

  async function tokenOf(id: string) {
    const browser = newBrowser();
    const { page, verifier } = await signIn(browser, id);
    expect(isConsentPage(page), describePage(page)).to.equal(true);
    const controls = page.forms.flatMap((form) => form.controls);
    const level = controls.findLast(({ name }) => name === 'level')?.value ?? '';
    const callback = requireExternalRedirect(
      await browser.submit(page, { decision: 'approve', level }),
    );
    const { connector, server, client } = setup();
    const { body } = await redeem({ link: connector.link, server, client, callback, verifier });
    return decodeJwt(body.access_token ?? '');
  }

  it('IDP-04 the same subject and address at two providers are two accounts', async () => {
    const subjects = [];
    for (const id of ['example', 'partners', 'github', 'example'])
      subjects.push((await tokenOf(id)).sub);
    expect(new Set(subjects).size).to.equal(3);
    expect(subjects[3]).to.equal(subjects[0]);
  });

  it('IDP-08 a group rule matches only groups of the provider that it names', async () => {
    for (const provider of [example, partners])
      provider.setBehaviour({ claims: { ...PERSON, groups: ['analysts'] } });
    github.setBehaviour({ organizations: ['analysts'] });
    const levels = [];
    for (const id of ['example', 'partners', 'github']) levels.push((await tokenOf(id)).scope);
    expect(levels).to.deep.equal(['operations', 'full', 'operations']);
  });

  it("IDP-03 a response at another provider's callback is refused, and the right callback still works", async () => {
    const browser = newBrowser();
    const page = requirePage((await startAuthorization(browser)).step);
    const departure = requireExternalRedirect(await chooseProvider(browser, page, 'example'));
    const callback = callbackFrom('example', departure);
    const exchanged = [example, partners, github].map(({ exchanges }) => exchanges.length);
    for (const [path, status] of [
      ['/interaction/callback/partners', 400],
      ['/interaction/callback/github', 400],
      ['/interaction/callback', 404],
      ['/interaction/callback/nobody', 404],
    ] as const)
      await expectRefused(browser, new URL(path + callback.search, callback), status);
    const interaction = browser.visited.find(({ pathname }) =>
      /^\/interaction\/[^/]+$/.test(pathname),
    );
    for (const path of ['callback/partners', 'callback', 'callback/nobody'])
      await expectRefused(
        browser,
        new URL(`${interaction?.pathname}/${path}${callback.search}`, callback),
        path === 'callback/partners' ? 400 : 404,
      );
    expect([example, partners, github].map(({ exchanges }) => exchanges.length)).to.deep.equal(
      exchanged,
    );
    expect(isConsentPage(requirePage(await browser.visit(callback)))).to.equal(true);
  });

  it("IDP-03 a response that names another provider's issuer is refused", async () => {
    for (const id of ['example', 'github']) {
      const browser = newBrowser();
      const page = requirePage((await startAuthorization(browser)).step);
      const callback = callbackFrom(
        id,
        requireExternalRedirect(await chooseProvider(browser, page, id)),
      );
      callback.searchParams.set('iss', partners.issuer);
      await expectRefused(browser, callback, 400);
    }
  });

  it('IDP-07 a choice of an unknown provider or from another site is refused', async () => {
    const browser = newBrowser();
    const page = requirePage((await startAuthorization(browser)).step);
    const [form] = page.forms;
    for (const [body, status] of [
      [{ provider: 'nobody' }, 404],
      [{}, 404],
    ] as const) {
      const sent = new URLSearchParams(body);
      const answer = requirePage(await browser.post(page, form!.action, sent));
      expect(answer.status).to.equal(status);
    }
    const evil = { ...page, url: new URL('https://evil.example/') };
    const sent = new URLSearchParams({ provider: 'example' });
    expect(requirePage(await browser.post(evil, form!.action, sent)).status).to.equal(403);
  });

  it('IDP-08 the console accepts an administrator from the provider of the rule only', async () => {
    for (const [id, status] of [
      ['github', 200],
      ['partners', 403],
    ] as const) {
      const browser = openBrowser([system.management]);
      const choice = requirePage(await browser.visit(`${system.management}/console`));
      expect(choice.html).to.include(`href="/console/sign-in/${id}"`);
      const departure = requireExternalRedirect(
        await browser.visit(`${system.management}/console/sign-in/${id}`),
      );
      const back = callbackFrom(id, departure);
      expect(back.origin + back.pathname).to.equal(`${system.management}/console/callback/${id}`);
      expect(requirePage(await browser.visit(back)).status).to.equal(status);
    }
  });

  it('IDP-03 CSL-02 the console refuses a response at another provider’s callback, and the right callback still works', async () => {
    const browser = openBrowser([system.management]);
    const departure = requireExternalRedirect(
      await browser.visit(`${system.management}/console/sign-in/github`),
    );
    const back = callbackFrom('github', departure);
    for (const [path, status] of [
      ['/console/callback/partners', 400],
      ['/console/callback', 404],
      ['/console/callback/nobody', 404],
    ] as const)
      await expectRefused(browser, new URL(path + back.search, back), status);
    expect(requirePage(await browser.visit(back)).status).to.equal(200);
  });
});
