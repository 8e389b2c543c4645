import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, expect } from 'chai';
import * as oidc from 'openid-client';
import {
  type Browser,
  type Page,
  isSignInPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../../support/browser.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { cookieHeader } from '../../support/cookie-jar.ts';
import { freePorts } from '../../support/free-ports.ts';
import {
  ADA,
  CLIENT,
  GRACE,
  type Place,
  type RunningIdp,
  discoverIdp,
  redeem,
  signInRequest,
  startIdp,
} from './running-idp.ts';

describe('sign-in at the development identity provider', () => {
  let place: Place;
  let running: RunningIdp;
  let idp: oidc.Configuration;
  let browser: Browser;

  before(async () => {
    const [port = 0] = await freePorts(1);
    place = { port, dataDir: await mkdtemp(join(tmpdir(), 'development-idp-')) };
    running = await startIdp(place);
    idp = await discoverIdp(running.url);
  });
  beforeEach(() => {
    browser = openBrowser([running.url]);
  });
  afterEach(restoreClock);
  after(async () => {
    await running.stop();
    await rm(place.dataDir, { recursive: true });
  });

  async function openPeople(more: Record<string, string> = {}, tab = browser) {
    const request = await signInRequest(idp, more);
    return { request, page: requirePage(await tab.visit(request.url)) };
  }

  async function signIn(person: string, more: Record<string, string> = {}) {
    const { request, page } = await openPeople(more);
    return { request, callback: requireExternalRedirect(await browser.submit(page, { person })) };
  }

  async function restart(change: Partial<Place> = {}) {
    await running.stop();
    running = await startIdp({ ...place, ...change });
  }

  it('the discovery document has only implemented endpoints, at the issuer, and only S256', () => {
    const metadata = idp.serverMetadata();
    expect(metadata.issuer).to.equal(running.url);
    const endpoints = Object.entries(metadata).filter(([name]) => /_endpoint$|_uri$/.test(name));
    expect(endpoints.map(([name]) => name)).to.have.members([
      'authorization_endpoint',
      'token_endpoint',
      'jwks_uri',
    ]);
    for (const [, url] of endpoints) expect(url).to.match(new RegExp(`^${running.url}/`));
    expect(metadata.code_challenge_methods_supported).to.deep.equal(['S256']);
    expect(metadata.scopes_supported).to.have.members(['openid', 'profile', 'email', 'groups']);
  });

  it('the page lists every person with their level', async () => {
    const { page } = await openPeople();
    expect(page.status).to.equal(200);
    for (const { name, email } of [ADA, GRACE])
      expect(page.html).to.include(name).and.include(email);
    expect([...page.html.matchAll(/badge">([^<]+)</g)].map(([, may]) => may)).to.deep.equal([
      'Everything (full)',
      'Totals and names (operations)',
    ]);
  });

  it('the ID token has the claims of the selected person', async () => {
    const { request, callback } = await signIn('ada');
    const claims = await redeem(idp, callback, request);
    expect(claims).to.include({
      iss: running.url,
      aud: CLIENT.id,
      sub: 'ada',
      nonce: request.checks.expectedNonce,
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
    });
    expect(claims['groups']).to.deep.equal(['owners', 'staff']);
    expect(callback.searchParams.get('iss')).to.equal(running.url);
  });

  it('the ID token has only the claims of the requested scopes', async () => {
    const { request, callback } = await signIn('grace', { scope: 'openid groups' });
    const claims = await redeem(idp, callback, request);
    expect(claims['groups']).to.deep.equal([]);
    expect(claims).not.to.have.any.keys('name', 'email', 'email_verified');
  });

  it('the client can send its secret in the request body', async () => {
    const posting = await discoverIdp(running.url, oidc.ClientSecretPost(CLIENT.secret));
    const { request, callback } = await signIn('ada');
    expect((await redeem(posting, callback, request)).sub).to.equal('ada');
  });

  it('a signed-in person is not asked again', async () => {
    await signIn('grace');
    const request = await signInRequest(idp);
    const callback = requireExternalRedirect(await browser.visit(request.url));
    expect((await redeem(idp, callback, request)).sub).to.equal('grace');
  });

  it('the session ends after two weeks', async () => {
    await signIn('grace');
    advanceClock(14 * 86_400 + 1);
    const { page } = await openPeople();
    assert(isSignInPage(page));
  });

  for (const prompt of [
    'login',
    'select_account',
    'consent',
    'login consent',
    'select_account login',
  ]) {
    it(`prompt=${prompt} asks again, and another person can sign in`, async () => {
      await signIn('grace');
      const { request, callback } = await signIn('ada', { prompt });
      expect((await redeem(idp, callback, request)).sub).to.equal('ada');
      const next = await signInRequest(idp);
      const remembered = requireExternalRedirect(await browser.visit(next.url));
      expect((await redeem(idp, remembered, next)).sub).to.equal('ada');
    });
  }

  it('prompt=login renews auth_time', async () => {
    const first = await signIn('ada', { max_age: '86400' });
    const before = await redeem(idp, first.callback, first.request);
    advanceClock(100);
    const again = await signIn('ada', { max_age: '86400', prompt: 'login' });
    const after = await redeem(idp, again.callback, again.request);
    expect(Number(after.auth_time) - Number(before.auth_time)).to.be.within(99, 110);
  });

  it('prompt=none returns login_required until a person signs in', async () => {
    const early = await signInRequest(idp, { prompt: 'none' });
    const refused = requireExternalRedirect(await browser.visit(early.url));
    expect(refused.searchParams.get('error')).to.equal('login_required');
    await signIn('ada');
    const late = await signInRequest(idp, { prompt: 'none' });
    const callback = requireExternalRedirect(await browser.visit(late.url));
    expect((await redeem(idp, callback, late)).sub).to.equal('ada');
  });

  it('another person can sign in from a tab that was opened before the first sign-in', async () => {
    const first = await openPeople();
    const second = await openPeople();
    requireExternalRedirect(await browser.submit(first.page, { person: 'ada' }));
    const callback = requireExternalRedirect(
      await browser.submit(second.page, { person: 'grace' }),
    );
    expect((await redeem(idp, callback, second.request)).sub).to.equal('grace');
  });

  it('the provider asks again if the signed-in person was removed from the settings', async () => {
    await signIn('grace');
    await restart({ people: [ADA] });
    try {
      const { request, callback } = await signIn('ada');
      expect((await redeem(idp, callback, request)).sub).to.equal('ada');
    } finally {
      await restart();
    }
  });

  it('an unknown person is refused with status 400 and the same page', async () => {
    const { request, page } = await openPeople();
    const mallory = new URLSearchParams({ person: 'mallory' });
    const again = requirePage(await browser.post(page, page.url, mallory));
    expect(again.status).to.equal(400);
    const callback = requireExternalRedirect(await browser.submit(again, { person: 'ada' }));
    expect((await redeem(idp, callback, request)).sub).to.equal('ada');
  });

  function expectStartAgain(page: Page) {
    expect(page.status).to.equal(400);
    expect(page.html).to.include('expired').and.include('Go back to the app and start again');
  }

  it('a page that is an hour old tells the person to start again from the app', async () => {
    const { page } = await openPeople();
    advanceClock(3601);
    expectStartAgain(requirePage(await browser.visit(page.url)));
    expectStartAgain(requirePage(await browser.submit(page, { person: 'ada' })));
  });

  it('the page of a finished sign-in tells the person to start again from the app', async () => {
    const { page } = await openPeople();
    await browser.submit(page, { person: 'ada' });
    expectStartAgain(requirePage(await browser.submit(page, { person: 'ada' })));
  });

  it('a page of another browser is refused, even with cookies of an own sign-in', async () => {
    const victim = openBrowser([running.url]);
    const { request, page } = await openPeople({}, victim);
    const own = await openPeople();
    const answer = await fetch(page.url, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie: cookieHeader(browser.jar, own.page.url), accept: 'text/html' },
      body: new URLSearchParams({ person: 'grace' }),
    });
    expect(answer.status).to.equal(400);
    const callback = requireExternalRedirect(await victim.submit(page, { person: 'ada' }));
    expect((await redeem(idp, callback, request)).sub).to.equal('ada');
  });

  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:4000']) {
    it(`a form from the origin ${origin} is refused`, async () => {
      const { page } = await openPeople();
      const answer = await fetch(page.url, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie: cookieHeader(browser.jar, page.url), origin },
        body: new URLSearchParams({ person: 'ada' }),
      });
      expect(answer.status).to.equal(403);
      expect(
        requireExternalRedirect(await browser.submit(page, { person: 'ada' })).searchParams.has(
          'code',
        ),
      );
    });
  }

  it('all cookies have names that no other engine uses', async () => {
    await signIn('ada');
    await openPeople({ prompt: 'login' });
    expect(browser.jar).to.have.length.above(2);
    for (const { name } of browser.jar) expect(name).to.match(/^development_idp_/);
  });

  it('an unknown path returns 404', async () => {
    for (const path of ['/', '/me', '/reg', '/session/end', '/interaction', '/wp-login.php']) {
      expect((await fetch(running.url + path)).status, path).to.equal(404);
    }
  });

  it('signing key, sessions, open pages and unused codes survive a restart', async () => {
    const keys = async () => (await fetch(String(idp.serverMetadata().jwks_uri))).text();
    const keysBefore = await keys();
    const { request, callback } = await signIn('ada');
    const open = await openPeople({ prompt: 'login' });

    await restart();

    expect(await keys()).to.equal(keysBefore);
    expect((await redeem(idp, callback, request)).sub).to.equal('ada');
    const later = requireExternalRedirect(await browser.submit(open.page, { person: 'ada' }));
    expect((await redeem(idp, later, open.request)).sub).to.equal('ada');
    const next = await signInRequest(idp);
    const remembered = requireExternalRedirect(await browser.visit(next.url));
    expect((await redeem(idp, remembered, next)).sub).to.equal('ada');
  });
});
