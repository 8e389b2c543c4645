import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isConsentPage, isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const languageOf = (html: string) => /<html lang="([^"]*)"/.exec(html)?.[1];

describe('The language of the pages', () => {
  const system = useSystem();

  async function start(uiLocales: string) {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    return authorizeUrl(server, client, { resource: link, ui_locales: uiLocales }).url;
  }

  async function home(headers: Record<string, string>, path = '/') {
    const response = await fetch(system().auth + path, {
      headers: { accept: 'text/html', ...headers },
    });
    return { headers: response.headers, html: await response.text() };
  }

  it('ui_locales applies from the sign-in to the last error page', async () => {
    const browser = openBrowser(system().origins);
    const signIn = requirePage(await browser.visit(await start('xx de-AT en')));
    expect(isSignInPage(signIn)).to.equal(true);
    expect(languageOf(signIn.html)).to.equal('de');
    const consent = requirePage(await browser.submit(signIn, { person: 'ada' }));
    expect(isConsentPage(consent)).to.equal(true);
    expect(languageOf(consent.html)).to.equal('de');
    expect(consent.html).to.include('Was darf die App sehen?').and.include('90\u00A0Tage');
    const [form] = consent.forms;
    if (!form) throw new Error('no form');
    const wrong = requirePage(
      await browser.post(consent, form.action, new URLSearchParams({ decision: 'approve' })),
    );
    expect([wrong.status, languageOf(wrong.html)]).to.deep.equal([403, 'de']);
    expect(wrong.html).to.include('Das Formular wurde nicht angenommen');
  });

  it("a refused request's page uses the request's ui_locales", async () => {
    const url = new URL(await start('ja'));
    url.searchParams.set('client_id', 'nobody');
    const page = requirePage(await openBrowser(system().origins).visit(url));
    expect([page.status, languageOf(page.html)]).to.deep.equal([400, 'ja']);
    expect(page.html).to.include('アプリを認識できません');
  });

  it('without ui_locales the pages use the best match of Accept-Language', async () => {
    for (const [accepted, language] of [
      ['fr-CH, fr;q=0.9, en;q=0.8', 'fr'],
      ['nl, es;q=0.5, de;q=0.7', 'de'],
      ['pt-PT', 'pt'],
      ['nl', 'en'],
      ['*', 'en'],
      ['-;;q=x,,', 'en'],
      [`de-${'a-'.repeat(2000)}`, 'en'],
    ] as const) {
      const { html, headers } = await home({ 'accept-language': accepted });
      expect(languageOf(html), accepted).to.equal(language);
      expect(headers.get('content-language')).to.equal(language);
      expect(headers.get('vary')).to.match(/Accept-Language/i);
      expect(headers.get('cache-control')).to.equal('no-store');
    }
  });

  it('HDR-09 ui_locales precedes Accept-Language, and unknown values are accepted', async () => {
    const german = await home({ 'accept-language': 'fr' }, '/?ui_locales=de');
    expect(languageOf(german.html)).to.equal('de');
    for (const wish of [
      '<script>',
      '__proto__ constructor',
      'x'.repeat(4000),
      '%00',
      'de&ui_locales=fr',
    ])
      expect(languageOf((await home({}, `/?ui_locales=${wish}`)).html), wish).to.equal('en');
  });

  it('JSON responses are in English', async () => {
    const response = await fetch(`${system().auth}/oauth/token`, {
      method: 'POST',
      headers: { 'accept-language': 'de' },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: 'x',
        refresh_token: 'y',
      }),
    });
    const { error_description: text } = (await response.json()) as { error_description: string };
    expect(text).to.include('register again');
  });
});
