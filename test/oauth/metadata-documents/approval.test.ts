// Metadata documents while an administrator must allow apps.
import { expect } from 'chai';
import { documentKey, documentVersion, type StoredDocument } from '../../../src/clients/clients.ts';
import { isConsentPage, openBrowser, requirePage } from '../../support/browser.ts';
import { advanceClock } from '../../support/clock.ts';
import { connect, openConsent } from '../../support/connection.ts';
import { readAudit, requestManagement } from '../../support/management-api.ts';
import { authorizeUrl, type Client, register } from '../../support/oauth.ts';
import { DOMAIN, publish } from './document-host.ts';
import { KEPT, usePublishing } from './publishing.ts';

const LOOPBACK = 'http://127.0.0.1/callback';
const STEAL = `https://app.${DOMAIN}/steal`;

describe('metadata documents in the registration mode approval', () => {
  const publishing = usePublishing('sqlite', undefined, { clients: { registration: 'approval' } });

  type Listed = { items: { id: string }[] };

  const allow = (id: string, app = false) =>
    requestManagement(publishing().system, 'POST', '/clients/allow', { id, app });

  async function statusOf(client: Client): Promise<number> {
    const { system, connector } = publishing();
    return (await openConsent(system, connector, { as: { client } })).page.status;
  }

  async function waiting(): Promise<string[]> {
    const path = '/clients?state=waiting&limit=1000';
    const { items } = (await requestManagement(publishing().system, 'GET', path)) as Listed;
    return items.map(({ id }) => id);
  }

  it('DCR-10 a rule that allows a self-registered app allows no metadata document with its name', async () => {
    const { server, newClient } = publishing();
    const { body } = await register(server, {
      client_name: 'Published app',
      redirect_uris: [LOOPBACK],
      token_endpoint_auth_method: 'none',
    });
    await allow(String(body.client_id), true);
    expect(await statusOf(newClient())).to.equal(403);
  });

  for (const [what, change] of [
    ['name changes', { client_name: 'Claude' }],
    ['redirect URIs change', { redirect_uris: [LOOPBACK, STEAL] }],
  ] as const)
    for (const first of ['allowed', 'connected'])
      it(`DCR-10 a document that was ${first} waits again when its ${what}, and is allowed anew`, async () => {
        const { system, connector, host, newClient } = publishing();
        const client = newClient();
        expect(await statusOf(client)).to.equal(403);
        await allow(client.id);
        if (first === 'connected') await connect(system, connector, { as: { client } });
        else expect(await statusOf(client)).to.equal(200);
        host.answer = publish(change);
        advanceClock(KEPT);
        expect(await statusOf(client)).to.equal(403);
        expect(await waiting()).to.include(client.id);
        await allow(client.id);
        expect(await statusOf(client)).to.equal(200);
        const items = (await readAudit(system)).filter(
          ({ event, clientId }) => event === 'client_allowed' && clientId === client.id,
        );
        expect(items.map((item) => item.arguments)).to.deep.equal([
          { name: 'Published app', destinations: ['loopback'] },
          'client_name' in change
            ? { name: 'Claude', destinations: ['loopback'] }
            : { name: 'Published app', destinations: [`app.${DOMAIN}`, 'loopback'] },
        ]);
      });

  it('DCR-10 what is judged is the version of this request, not one that another process has stored since', async () => {
    const { system, store, connector, server, host, newClient } = publishing();
    host.answer = publish({ redirect_uris: [STEAL] });
    const client = { ...newClient(), redirectUri: STEAL };
    const browser = openBrowser(system.origins);
    const page = await browser.openConsent(
      authorizeUrl(server, client, { resource: connector.link }).url,
    );
    expect(page.status).to.equal(403);
    await store.update<StoredDocument>(documentKey(client.id), (current) => {
      if (!current) throw new Error('there is no copy of the document');
      const document = { ...current.document, redirect_uris: [LOOPBACK] };
      const allowed = { allowedAt: 1, allowedAs: documentVersion(document) };
      return { value: { ...current, ...allowed, document }, ttl: 3600 };
    });
    const again = requirePage(await browser.visit(page.url));
    expect([again.status, isConsentPage(again)]).to.deep.equal([403, false]);
  });

  it('DCR-10 a document is listed as waiting only after somebody has signed in', async () => {
    const { newClient, visit } = publishing();
    const client = newClient();
    await visit(client);
    expect(await waiting()).to.not.include(client.id);
    expect(await statusOf(client)).to.equal(403);
    expect(await waiting()).to.include(client.id);
  });
});
