import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { documentOf, RECORDED_CLIENTS } from '../interoperability/recorded-clients.ts';
import type { Browser } from '../support/browser.ts';
import { connect, REDIRECT_URI } from '../support/connection.ts';
import { useConsole } from '../support/console.ts';
import { unescapeHtml } from '../support/html-forms.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import type { Client } from '../support/oauth.ts';

const [DOCUMENT] = RECORDED_CLIENTS.map(documentOf).filter((document) => document !== undefined);
if (!DOCUMENT) throw new Error('there is a document');
/** Ids in the settings may have dots. */
const SET_UP = { id: 'desk.app', name: 'Desk app', redirectUris: [REDIRECT_URI] };

const DOCUMENTED: Client = {
  id: DOCUMENT.url,
  method: 'none',
  redirectUri: DOCUMENT.redirectUri,
};

describe('the links of the console', () => {
  const { system, consoleUrl, signIn, send } = useConsole({
    file: {
      clients: {
        preRegistered: [SET_UP],
        metadataDocuments: [{ url: DOCUMENT.url, document: DOCUMENT.published }],
      },
    },
  });

  const manage = (method: string, path: string, body?: object) =>
    requestManagement(system(), method, path, body);

  /** Records of each kind, in their states. */
  before(async () => {
    const link = await createConnector(system(), { name: 'Orders', level: 'full' });
    const recorded = await connect(system(), link, { level: 'full' });
    await callTool(link.link, recorded.accessToken, 'club_overview');
    const clients: Client[] = [
      DOCUMENTED,
      { id: SET_UP.id, method: 'none', redirectUri: REDIRECT_URI },
    ];
    for (const client of clients)
      await connect(system(), link, { person: 'grace', as: { client } });
    await manage('POST', '/clients/revoke', { id: SET_UP.id });
    const ended = await createConnector(system(), { name: 'Ended' });
    const { accessToken } = await connect(system(), ended, { person: 'grace' });
    await manage('DELETE', `/connectors/${ended.id}`);
    await manage('POST', `/accounts/${String(decodeJwt(accessToken).sub)}/disable`);
    await manage('POST', '/tokens', { name: 'Nightly', level: 'analytics' });
    await manage('POST', '/clients', { name: 'Robot', connector: link.id, level: 'analytics' });
    await manage('POST', '/client-rules', { name: 'Another app' });
  });

  /** The paths of the console that the page links to. */
  function linksIn(html: string, base: URL): string[] {
    return [...html.matchAll(/<a\b[^>]*\shref="([^"]*)"/g)]
      .map(([, href = '']) => new URL(unescapeHtml(href), base))
      .filter(({ origin, pathname }) => origin === base.origin && pathname.startsWith('/console'))
      .map(({ pathname, search }) => pathname.slice('/console'.length) + search);
  }

  /** Opens every page that can be reached by links. Returns the paths in the order in which they were opened. */
  async function openAll(browser: Browser, first: string): Promise<string[]> {
    const paths = [first];
    for (const path of paths) {
      const page = await browser.visit(consoleUrl(path));
      if (page.kind !== 'page') throw new Error(`${path} leads to ${page.url.href}`);
      expect(page.status, path).to.equal(200);
      paths.push(...new Set(linksIn(page.html, page.url)).difference(new Set(paths)));
    }
    return paths;
  }

  it('CSL-13 every link of every page opens a page, also for apps whose id is a URL', async () => {
    const { browser, page } = await signIn('/overview');
    const paths = await openAll(browser, page.url.pathname.slice('/console'.length));
    const pages = paths.filter((path) => path.startsWith('/clients/'));
    const titles = await Promise.all(
      pages.map(async (path) => {
        const opened = await browser.visit(consoleUrl(path));
        return opened.kind === 'page' ? opened.html : '';
      }),
    );
    for (const id of [DOCUMENT.url, SET_UP.id, 'Robot'])
      expect(
        titles.filter((html) => unescapeHtml(html).includes(id)),
        id,
      ).to.not.deep.equal([]);
    for (const section of ['/connectors/', '/grants/', '/accounts/', '/tokens/new', '/audit?'])
      expect(
        paths.filter((path) => path.startsWith(section)),
        section,
      ).to.not.deep.equal([]);
  });

  it('CSL-13 an app with a metadata document is revoked on its page, which is shown again', async () => {
    const { browser, page } = await signIn('/clients');
    const pages = linksIn(page.html, page.url).filter((path) => path.startsWith('/clients/'));
    for (const path of pages) {
      const app = await browser.visit(consoleUrl(path));
      if (app.kind !== 'page' || !unescapeHtml(app.html).includes(DOCUMENTED.id)) continue;
      const form = app.forms.find(({ action }) => action.pathname.endsWith('/clients/revoke'));
      const fields = Object.fromEntries(
        (form?.controls ?? []).map(({ name, value }) => [name, value]),
      );
      const after = await send(browser, app, '/clients/revoke', fields);
      expect(after.url.pathname).to.equal(app.url.pathname);
      expect(after.html).to.include('App revoked.');
      return;
    }
    throw new Error('no page of the app');
  });
});
