import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { createConnector } from '../support/management-api.ts';
import { formTokenIn, useConsole } from '../support/console.ts';
import { withoutOwnScript } from '../support/own-script.ts';

describe('the console', () => {
  const { system, origins, consoleUrl, open, signIn, send } = useConsole();

  describe('refusals', () => {
    it('CSL-02 the console refuses a callback in another browser and a repeated callback', async () => {
      const [mine, theirs] = [openBrowser(origins()), openBrowser(origins())];
      const page = requirePage(await mine.visit(consoleUrl('/connectors')));
      await mine.submit(page, { person: 'ada' });
      const callback = mine.visited.find(({ pathname }) => pathname === '/console/callback');
      if (!callback) throw new Error('the identity provider sent nobody back');
      for (const [browser, text] of [
        [theirs, 'Your browser didn’t send a cookie'],
        [mine, 'This sign-in page has expired'],
      ] as const) {
        const { status, html } = requirePage(await browser.visit(callback));
        expect(status).to.equal(400);
        expect(html).to.include(text).and.include('Sign in to the console');
      }
      expect(theirs.jar.map(({ name }) => name)).not.to.include('gatehouse-console');
    });

    it('a cancelled sign-in shows a page with a link to start again', async () => {
      const browser = openBrowser(origins());
      await browser.visit(consoleUrl('/connectors'));
      const asked = browser.visited.find(({ pathname }) => pathname === '/auth');
      const answer = new URL(consoleUrl('/callback'));
      answer.searchParams.set('error', 'access_denied');
      answer.searchParams.set('iss', asked?.origin ?? '');
      answer.searchParams.set('state', asked?.searchParams.get('state') ?? '');
      const page = requirePage(await browser.visit(answer));
      expect(page.status).to.equal(400);
      expect(page.html)
        .to.include('You didn’t finish signing in')
        .and.include('href="/console">Sign in to the console</a>')
        .and.not.match(/the app\b/);
    });

    it('CSL-05 forms without the form token of the session or from another site are refused and create nothing', async () => {
      const { browser, page } = await signIn();
      const { page: other } = await signIn();
      const fields = { name: 'Never made', level: 'full', idempotencyKey: 'A'.repeat(43) };
      for (const token of ['', 'x', formTokenIn(other)]) {
        const answer = await send(browser, page, '/connectors', { ...fields, token });
        expect(answer.status, token).to.equal(403);
        expect(answer.html).to.include('This form wasn’t accepted');
      }
      const cookie = browser.jar.map(({ name, value }) => `${name}=${value}`).join('; ');
      const body = new URLSearchParams({ ...fields, token: formTokenIn(page) });
      for (const headers of [
        { origin: 'https://evil.example' },
        { origin: 'null' },
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'same-site' },
      ] as Record<string, string>[]) {
        const response = await fetch(consoleUrl('/connectors'), {
          method: 'POST',
          headers: { cookie, ...headers },
          body,
        });
        expect(response.status, JSON.stringify(headers)).to.equal(403);
      }
      const { html } = await open(browser, '/connectors');
      expect(html).not.to.include('Never made');
      // Where a proxy sets `Referrer-Policy: no-referrer`.
      const own = { cookie, origin: 'null', 'sec-fetch-site': 'same-origin' };
      const address = consoleUrl('/connectors');
      const accepted = await fetch(address, { method: 'POST', headers: own, body });
      expect(accepted.status).to.equal(200);
    });

    it('CSL-05 unknown records and invalid forms get an error page', async () => {
      const { browser, page } = await signIn();
      const missing = await open(browser, '/connectors/AAAAAAAAAAAAAAAAAAAAAA');
      expect(missing.status).to.equal(404);
      expect(missing.html)
        .to.include('Page not found')
        .and.include('Open the console')
        .and.not.include('paste your connect link');
      const token = formTokenIn(page);
      const { id } = await createConnector(system());
      const kept = await send(browser, page, `/connectors/${id}/delete`, { token });
      expect(kept.status).to.equal(409);
      expect(kept.html).to.include('Can’t delete yet');
      const answer = await send(browser, page, '/connectors', { name: 'x', level: 'full', token });
      expect(answer.status).to.equal(400);
    });
  });

  it('CSL-06 pages of the console forbid caching, framing, cross-origin openers, foreign form targets and scripts of other origins', async () => {
    const { page } = await signIn();
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).to.include("frame-ancestors 'none'").and.include("form-action 'self'");
    expect(policy.match(/script-src[^;]*/g)).to.deep.equal(["script-src 'self'"]);
    expect(page.headers.get('cross-origin-opener-policy')).to.equal('same-origin');
    expect(page.headers.get('cache-control')).to.equal('no-store');
    expect(page.html).not.to.include(system().managementKey);
    expect(withoutOwnScript(page.html)).not.to.include('<script');
  });
});
