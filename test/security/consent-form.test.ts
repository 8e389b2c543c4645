// CSRF protection of the consent form (RFC 9700 section 4.7).
import { expect } from 'chai';
import {
  isConsentPage,
  isSignInPage,
  type Browser,
  describePage,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { redeem } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import type { FormValues } from '../support/html-forms.ts';
import { approvalForm, useConsent } from '../support/consent.ts';

describe('The consent form', () => {
  const { system, target, newClient, startAuthorization, newBrowser, openConsentPage } =
    useConsent();

  it('CON-06 forms of another authorization, another site or no known origin are refused, and the own form still works', async () => {
    const { browser, page } = await openConsentPage();
    const other = requirePage(await browser.visit(startAuthorization(await newClient()).url));
    const { action, body } = approvalForm(page);
    const foreign = approvalForm(other).body;
    const cookie = cookieHeader(browser.jar, action);
    const attempts: [string, URLSearchParams, Record<string, string>][] = [
      ['of another authorization', foreign, {}],
      ['without a token', new URLSearchParams({ decision: 'approve', level: 'operations' }), {}],
      ['from another origin', body, { origin: 'https://evil.example' }],
      ['from an opaque origin', body, { origin: 'null' }],
      [
        'from an opaque origin, across sites',
        body,
        { origin: 'null', 'sec-fetch-site': 'cross-site' },
      ],
      [
        'from an opaque origin, from the same site',
        body,
        { origin: 'null', 'sec-fetch-site': 'same-site' },
      ],
      ['from the resource server', body, { origin: system().resource }],
      ['across sites', body, { 'sec-fetch-site': 'cross-site' }],
      ['from the same site', body, { 'sec-fetch-site': 'same-site' }],
    ];
    for (const decision of ['approve', 'deny', 'switch'])
      for (const [what, sent, headers] of attempts) {
        const form = new URLSearchParams(sent);
        form.set('decision', decision);
        const answer = await fetch(action, {
          method: 'POST',
          redirect: 'manual',
          headers: { cookie, ...headers },
          body: form,
        });
        expect(answer.status, `${decision} ${what}`).to.equal(403);
      }
    const callback = requireExternalRedirect(await browser.post(page, action, body));
    expect(callback.searchParams.has('code')).to.equal(true);
    for (const [what, sent, headers] of attempts.slice(2)) {
      const answer = await fetch(action, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie, ...headers },
        body: sent,
      });
      expect([answer.status, answer.headers.get('location')], what).to.deep.equal([403, null]);
    }
  });

  it('CON-06 the own form is accepted where a proxy makes browsers withhold its origin', async () => {
    const { browser, page } = await openConsentPage();
    const { action, body } = approvalForm(page);
    const headers = {
      cookie: cookieHeader(browser.jar, action),
      origin: 'null',
      'sec-fetch-site': 'same-origin',
    };
    const answer = await fetch(action, { method: 'POST', redirect: 'manual', headers, body });
    expect(answer.status).to.equal(303);
    const resumed = new URL(answer.headers.get('location') ?? '', action);
    const callback = requireExternalRedirect(await browser.visit(resumed));
    expect(callback.searchParams.has('code')).to.equal(true);
  });

  it('CON-06 a page that was loaded twice has one form token, and either copy can be submitted', async () => {
    const { browser, page } = await openConsentPage();
    const again = requirePage(await browser.visit(page.url));
    expect(approvalForm(again).body.get('token')).to.equal(approvalForm(page).body.get('token'));
    const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    expect(callback.searchParams.has('code')).to.equal(true);
  });

  it('CON-12 an authorization is refused in another browser and with the cookie of another authorization', async () => {
    const { browser, page } = await openConsentPage();
    const uid = page.url.pathname.split('/').at(-1) ?? '';
    const otherBrowser = newBrowser();
    await otherBrowser.authorize(startAuthorization(await newClient()).url, { person: 'grace' });
    for (const path of [`/interaction/${uid}`, `/oauth/authorize/${uid}`]) {
      const answer = requirePage(await otherBrowser.visit(system().auth + path));
      expect(answer.status, path).to.equal(400);
    }
    const stolen = requirePage(await otherBrowser.post(page, page.url, approvalForm(page).body));
    expect(stolen.status).to.equal(400);
    // The cookie of one authorization, sent to the URL of another.
    const second = requirePage(await browser.visit(startAuthorization(await newClient()).url));
    const answer = await fetch(second.url, {
      redirect: 'manual',
      headers: { cookie: cookieHeader(browser.jar, page.url) },
    });
    expect(answer.status).to.equal(400);
    requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
  });

  it("CON-12 resuming an authorization with the cookie of another browser's authorization is refused", async () => {
    const [attacker, person] = [await openConsentPage(), await openConsentPage()];
    const { action, body } = approvalForm(attacker.page);
    const { headers } = await fetch(action, {
      method: 'POST',
      redirect: 'manual',
      headers: { cookie: cookieHeader(attacker.browser.jar, action) },
      body,
    });
    const resumed = new URL(headers.get('location') ?? '');
    const cookie = cookieHeader(attacker.browser.jar, resumed);
    const { pathname } = new URL(person.page.url);
    const otherUrl = resumed.href.replace(/[^/]+$/, pathname.split('/').at(-1) ?? '');
    const answer = await fetch(otherUrl, { redirect: 'manual', headers: { cookie } });
    expect([answer.status, answer.headers.get('location')]).to.deep.equal([400, null]);
    const callback = requireExternalRedirect(
      await person.browser.submit(person.page, { decision: 'approve' }),
    );
    expect(callback.searchParams.get('state')).to.equal(person.state);
  });

  const ORDERS = ['xXyY', 'xyXY', 'xyYX', 'yxXY', 'yxYX', 'yYxX'];
  for (const order of ORDERS) {
    it(`CON-13 two authorizations in one browser send each app its own response (${order})`, async () => {
      const browser = newBrowser();
      const tabs = { x: await tab(browser), y: await tab(browser) };
      for (const step of order) await tabs[step.toLowerCase() as 'x' | 'y'].go();
      for (const { state, client, verifier, page } of Object.values(tabs)) {
        if (page.kind !== 'redirect') throw new Error(describePage(page));
        expect(page.url.searchParams.get('state')).to.equal(state);
        const { server, connector } = target();
        const code = { link: connector.link, server, client, callback: page.url, verifier };
        expect((await redeem(code)).status).to.equal(200);
      }
    });
  }

  /** An authorization in its own tab. The first `go` signs in, the second approves. */
  async function tab(browser: Browser) {
    const client = await newClient();
    const { url, state, verifier } = startAuthorization(client);
    const self = {
      client,
      state,
      verifier,
      page: await browser.visit(url),
      async go() {
        const page = requirePage(self.page);
        const filling: FormValues = isSignInPage(page)
          ? { person: 'ada' }
          : { decision: 'approve' };
        self.page = await browser.submit(page, filling);
      },
    };
    return self;
  }

  it('CON-17 one submission of the form completes an authorization, whatever scope and prompt it requests', async () => {
    const client = await newClient();
    const browser = newBrowser();
    for (const more of [
      { scope: 'openid' },
      { scope: '*' },
      { scope: 'offline_access' },
      { scope: 'full', prompt: 'consent' },
      { prompt: 'login consent' },
      { prompt: 'select_account' },
      { prompt: 'login', max_age: '0' },
    ]) {
      const page = await browser.openConsent(startAuthorization(client, more).url);
      const { searchParams } = requireExternalRedirect(
        await browser.submit(page, { decision: 'approve' }),
      );
      expect(searchParams.has('code'), JSON.stringify(more)).to.equal(true);
    }
  });

  it('CON-17 a person without any level gets 403 for each approval, and can deny', async () => {
    const browser = newBrowser();
    const page = await browser.openConsent(startAuthorization(await newClient()).url, 'alan');
    const { action, body } = approvalForm(page);
    for (let time = 0; time < 3; time += 1) {
      const answer = requirePage(await browser.post(page, action, body));
      expect([answer.status, isConsentPage(answer)]).to.deep.equal([403, false]);
    }
    const { searchParams } = requireExternalRedirect(
      await browser.submit(page, { decision: 'deny' }),
    );
    expect(searchParams.get('error')).to.equal('access_denied');
  });
});
