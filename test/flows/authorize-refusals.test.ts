// RFC 6749 section 4.1.2.1.
import { expect } from 'chai';
import { createConnector, revokeConnector, type Connector } from '../support/management-api.ts';
import {
  isConsentPage,
  isSignInPage,
  openBrowser,
  requirePage,
  type Page,
} from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, requestAuthorization } from '../support/connection.ts';
import { type Parameters } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('A bad authorization request', () => {
  const system = useSystem();
  let connector: Connector;
  before(async () => {
    connector = await createConnector(system());
  });

  /** The page at which a fresh browser ends; throws if it is redirected to another origin. */
  async function pageFor(parameters: Parameters, { link } = connector): Promise<Page> {
    const { url } = await requestAuthorization(system(), connector, {
      resource: link,
      ...parameters,
    });
    return requirePage(await openBrowser(system().origins).visit(url));
  }

  function expectRefusal(page: Page): void {
    expect(page.status).to.equal(400);
    expect(page.headers.get('content-type')).to.match(/^text\/html/);
    expect(isSignInPage(page) || isConsentPage(page)).to.equal(false);
    // The page tells the person whether to retry or to fix the app, so it must not blame the server.
    expect(page.html).to.not.include('on our side');
  }

  it('the page says what is too much or missing in a resource that is almost a connect link', async () => {
    const { resource } = system();
    const { link } = connector;
    for (const [sent, title] of [
      [`${link}?utm_source=plugin`, 'Remove what follows the connect link'],
      [`${link}#`, 'Remove what follows the connect link'],
      [`${link}/sse`, 'Remove what follows the connect link'],
      [resource, 'This isn’t the whole connect link'],
      [link.replace('/mcp', ''), 'This isn’t the whole connect link'],
      [`${resource}/mcp`, 'This isn’t the whole connect link'],
      [link.replace(connector.id, 'x'.repeat(22)), 'This connect link doesn’t work'],
      ['https://other.example/connect/x/mcp?x', 'This connect link doesn’t work'],
    ] as const)
      expect((await pageFor({ resource: sent })).html, sent).to.include(title);
  });

  it('a parameter without a value counts as omitted', async () => {
    const empty = ['response_mode', 'prompt', 'scope', 'login_hint', 'ui_locales', 'dpop_jkt'];
    const parameters = Object.fromEntries(empty.map((name) => [name, '']));
    const doubled = { resource: ['', connector.link], state: ['', 'x'] };
    const page = await pageFor({ ...parameters, ...doubled });
    expect([page.status, isSignInPage(page)]).to.deep.equal([200, true]);
  });

  it('a revoked or expired connect link is refused with a page', async () => {
    const revoked = await createConnector(system());
    await revokeConnector(system(), revoked.id);
    expectRefusal(await pageFor({}, revoked));
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const expiring = await createConnector(system(), { expiresAt });
    expect(isSignInPage(await pageFor({}, expiring))).to.equal(true);
    advanceClock(61);
    expectRefusal(await pageFor({}, expiring));
  });

  it('a connect link without uses left is refused with an explanation after sign-in', async () => {
    const once = await createConnector(system(), { maxUses: 1 });
    await connect(system(), once);
    const browser = openBrowser(system().origins);
    const { url, state } = await requestAuthorization(system(), once);
    const page = await browser.openConsent(url, 'grace');
    expect(page.status).to.equal(403);
    expect(isConsentPage(page)).to.equal(false);
    expect(page.html).to.match(/<h1>The connect link for [^\n]*is used up<\/h1>/);
    const step = await browser.submit(page, { decision: 'deny' });
    if (step.kind === 'page') throw new Error(step.html);
    expect(Object.fromEntries(step.url.searchParams)).to.deep.include({
      error: 'access_denied',
      state,
      iss: system().auth,
    });
    expect(step.url.searchParams.get('error_description')).to.match(/used up/);
    const late = requirePage(await browser.visit(page.url));
    expect(late.html).to.include('<h1>You’ve denied this</h1>');
  });

  it('a browser that refuses cookies is told so, and one that sends another cookie is not', async () => {
    const { url } = await requestAuthorization(system(), connector);
    const headers = { accept: 'text/html' };
    const first = await fetch(url, { redirect: 'manual', headers });
    const next = new URL(first.headers.get('location') ?? '', url);
    const refused = await fetch(next, { headers });
    expect(refused.status).to.equal(400);
    expect(await refused.text()).to.include('Your browser didn’t send a cookie');
    const other = await fetch(next, { headers: { ...headers, cookie: 'theme=dark' } });
    expect(await other.text()).to.include('This page has expired');
  });

  it('the page shows the reference that is also in the response header', async () => {
    const { headers, html } = await pageFor({ client_id: 'nobody' });
    expect(headers.get('x-request-id')).to.match(/^[\w-]{6,}$/);
    expect(html).to.include(`<dd class="code">${headers.get('x-request-id')}</dd>`);
  });

  it('values from the request are escaped in the page', async () => {
    const markup = '"><script>alert(1)</script>';
    for (const name of [
      'client_id',
      'redirect_uri',
      'resource',
      'scope',
      'prompt',
      'response_type',
    ]) {
      const page = await pageFor({ [name]: markup });
      expect(page.html, name).to.not.include('<script>alert');
    }
  });
});
