// RFC 6749 section 4.1.2.
import { expect } from 'chai';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  isSignInPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
  type Browser,
  type Page,
  type Person,
} from '../support/browser.ts';
import { connect, registerClient, REDIRECT_URI } from '../support/connection.ts';
import { authorizeUrl, discover, type Parameters } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('The consent page', () => {
  const system = useSystem();

  async function open(person: Person = 'ada', parameters: Parameters = {}) {
    const connector = await createConnector(system(), { name: 'Club & <Friends>' });
    const { link } = connector;
    const { server } = await discover(link);
    const client = await registerClient(server);
    const browser = openBrowser(system().origins);
    const authorization = authorizeUrl(server, client, { resource: link, ...parameters });
    const page = await browser.openConsent(authorization.url, person);
    return { connector, link, server, client, browser, page, ...authorization };
  }

  it('AUD-10 the authorization response has only code, state and iss', async () => {
    const state = 'ä =&?#%00"\'<>+ /\\';
    const { browser, page } = await open('ada', { state });
    const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    expect(callback.href.startsWith(`${REDIRECT_URI}?`)).to.equal(true);
    expect([...callback.searchParams.keys()].sort()).to.deep.equal(['code', 'iss', 'state']);
    expect(callback.searchParams.get('state')).to.equal(state);
    expect(callback.searchParams.get('iss')).to.equal(system().auth);
  });

  it('AUD-10 CON-10 the response to a denial has access_denied, state and iss', async () => {
    const { browser, page, state } = await open();
    const { searchParams } = requireExternalRedirect(
      await browser.submit(page, { decision: 'deny' }),
    );
    expect(Object.fromEntries(searchParams)).to.include({
      error: 'access_denied',
      state,
      iss: system().auth,
    });
    expect(searchParams.has('code')).to.equal(false);
  });

  /** The fields that the consent form sends on approval. */
  function approval(page: Page): { action: URL; body: URLSearchParams } {
    const form = page.forms.find(({ method }) => method === 'POST');
    if (!form) throw new Error('the page has no form');
    const body = new URLSearchParams({ decision: 'approve', level: 'operations' });
    for (const { kind, name, value } of form.controls)
      if (kind === 'hidden') body.append(name, value);
    return { action: form.action, body };
  }

  async function expectNothingApproved(
    browser: Browser,
    page: Page,
    sent: URLSearchParams,
    at: URL,
  ) {
    const answer = requirePage(await browser.post(page, at, sent));
    expect(answer.status).to.be.within(400, 499);
  }

  it('CON-06 a form that was tampered with is rejected', async () => {
    const { browser, page } = await open();
    const { action, body } = approval(page);
    const changes: Record<string, string | undefined>[] = [
      { token: 'x' },
      { token: undefined },
      { token: `${body.get('token')}x` },
      { token: '' },
      { level: 'full' },
      { level: 'nothing' },
      { level: undefined },
      { decision: 'maybe' },
      { decision: undefined },
    ];
    for (const change of changes) {
      const sent = new URLSearchParams(body);
      for (const [name, value] of Object.entries(change)) {
        if (value === undefined) sent.delete(name);
        else sent.set(name, value);
      }
      await expectNothingApproved(browser, page, sent, action);
    }
    const { searchParams } = requireExternalRedirect(await browser.post(page, action, body));
    expect(searchParams.has('code')).to.equal(true);
  });

  it('CNX-08 a person without access is offered no level', async () => {
    const { browser, page, state } = await open('alan');
    expect(page.status).to.equal(403);
    expect(isConsentPage(page)).to.equal(false);
    expect(page.html).to.include('Alan Turing');
    const { action, body } = approval(page);
    await expectNothingApproved(browser, page, body, action);
    const { searchParams } = requireExternalRedirect(
      await browser.submit(page, { decision: 'deny' }),
    );
    expect(Object.fromEntries(searchParams)).to.include({ error: 'access_denied', state });
  });

  it('SES-06 a person can switch the account on the consent page', async () => {
    const { browser, page, link } = await open('alan');
    expect(page.html).to.include('<h1>You don’t have access to ');
    const picker = requirePage(await browser.submit(page, { decision: 'switch' }));
    expect(isSignInPage(picker)).to.equal(true);
    const again = requirePage(await browser.submit(picker, { person: 'grace' }));
    expect(again.html).to.include('Grace Hopper').and.not.include('Alan Turing');
    expect(
      requireExternalRedirect(
        await browser.submit(again, { decision: 'approve' }),
      ).searchParams.has('code'),
    ).to.equal(true);
    const next = await connect(
      system(),
      { link },
      { as: { browser }, decision: 'switch', person: 'ada' },
    );
    expect(next.scope).to.equal('operations offline_access');
  });

  it('CON-07 the consent page is shown again if another account has signed in meanwhile', async () => {
    const { browser, page, link, server, client } = await open('ada');
    const { url } = authorizeUrl(server, client, { resource: link });
    const second = requirePage(await browser.visit(url));
    const picker = requirePage(await browser.submit(second, { decision: 'switch' }));
    requirePage(await browser.submit(picker, { person: 'grace' }));
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.status).to.be.within(400, 499);
    expect(answer.html).to.not.include('Ada Lovelace');
  });

  it('an approval fails if the connector was revoked meanwhile', async () => {
    const { browser, page, connector, url } = await open();
    await revokeConnector(system(), connector.id);
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.status).to.be.within(400, 499);
    expect(answer.html).to.match(/revoked/);
    for (const { html } of [answer, requirePage(await browser.visit(url))])
      expect(html).to.include('<h1>This connect link doesn’t work</h1>');
  });
});
