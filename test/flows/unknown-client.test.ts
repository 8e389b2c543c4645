// A client id that is no longer known: its registration was deleted, or the store was restored.
import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { connect, requestAuthorization } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const CLAUDE = 'https://claude.ai/api/mcp/auth_callback';

describe('A client id that is no longer known', () => {
  const system = useSystem({ file: { clients: { apps: ['claude', 'chatgpt'] } } });

  async function pageFor(redirectUri: string, language = 'en', id = 'an-id-of-yesterday') {
    const connector = await createConnector(system());
    const { server, client } = await requestAuthorization(system(), connector);
    const unknown = { ...client, id, redirectUri };
    const { url } = authorizeUrl(server, unknown, { resource: connector.link });
    url.searchParams.set('ui_locales', language);
    return requirePage(await openBrowser(system().origins).visit(url));
  }

  it('gets a page that says how to remove the server in the app with this callback', async () => {
    const { html, status } = await pageFor(CLAUDE);
    expect(status).to.equal(400);
    expect(html)
      .to.include('Settings → Connectors → … → Remove')
      .and.include('add the connect link again');
    expect(html).to.not.include('Apps &amp; Connectors').and.not.include('claude mcp remove');
  });

  it('gets the ways of all apps that may connect if the callback tells no app', async () => {
    const { html } = await pageFor('http://127.0.0.1:7070/callback');
    for (const way of [
      'Settings → Connectors → … → Remove',
      'Settings → Apps &amp; Connectors → … → Delete',
      'Authentication: Remove Dynamic Authentication Providers',
      'claude mcp remove &lt;name&gt;',
    ])
      expect(html).to.include(way);
    expect(html).to.not.include('Le Chat');
  });

  for (const [language, text] of [
    ['de', 'Entfernen Sie den Server in der App.'],
    ['es', 'En la aplicación, quita el servidor.'],
    ['fr', 'Dans l’application, supprimez le serveur.'],
    ['ja', 'アプリでサーバーを削除し'],
    ['pt', 'No aplicativo, remova o servidor.'],
  ] as const)
    it(`gets a page in ${language}`, async () => {
      expect((await pageFor(CLAUDE, language)).html).to.include(text);
    });

  it('gets 401 invalid_client at the token endpoint', async () => {
    const { server, client, refreshToken } = await connect(
      system(),
      await createConnector(system()),
    );
    const unknown = { ...client, id: 'an-id-of-yesterday' };
    const { status, body } = await refresh(server, unknown, refreshToken);
    expect([status, body.error]).to.deep.equal([401, 'invalid_client']);
  });

  it('is one attempt with the number of tries and the app of the callback', async () => {
    const id = 'an-id-of-last-week';
    for (const _ of [1, 2]) await pageFor(CLAUDE, 'en', id);
    const found = await until('the second try', async () => {
      const listed = await requestManagement(system(), 'GET', `/attempts?client=${id}`);
      const { items } = listed as { items: { count?: number }[] };
      expect(items).to.have.length.at.most(1);
      return items.find(({ count }) => count === 2);
    });
    expect(found).to.include({
      reason: 'unknown_client',
      clientName: 'Claude (web, desktop and mobile)',
    });
  });
});
