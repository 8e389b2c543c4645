// What real clients register is accepted, stated back in a form they all read, and good for a whole flow (RFC 7591).
import { expect } from 'chai';
import { createConnector } from '../support/administrator.ts';
import { openBrowser } from '../support/browser.ts';
import { habitualParameters } from '../support/connection.ts';
import { isLetIn } from '../support/mcp.ts';
import { METADATA_DOCUMENTS } from '../support/metadata-documents.ts';
import {
  authorizeUrl,
  discover,
  exchange,
  refresh,
  register,
  type Client,
  type Parameters,
} from '../support/oauth.ts';
import { REGISTRATIONS, type ClientHabits } from '../support/registrations.ts';
import { onEachStore, type System } from '../support/system.ts';

/** Authorizes, redeems, calls, refreshes and calls again, the way this client does. */
async function goAllTheWay(system: System, client: Client, habits: ClientHabits): Promise<void> {
  const { link } = await createConnector(system);
  const discovery = await discover(link);
  const { server } = discovery;
  const { url, verifier, state } = authorizeUrl(
    server,
    client,
    habitualParameters(habits, discovery, link),
  );

  const callback = await openBrowser(system.origins).authorize(url);
  expect(callback.href.startsWith(`${habits.redirectUri}?`), callback.href).to.equal(true);
  expect(callback.searchParams.get('state')).to.equal(state);
  expect(callback.searchParams.get('iss')).to.equal(server.issuer);

  const first = await exchange(server, client, { callback, verifier }, { resource: link });
  expect(first.status, JSON.stringify(first.body)).to.equal(200);
  expect(first.body.scope).to.equal('operations offline_access');
  expect(await isLetIn(link, first.body.access_token)).to.equal(true);

  const again: Parameters = {
    resource: habits.refreshes.resource ? link : undefined,
    scope: habits.refreshes.scope === 'granted' ? first.body.scope : undefined,
  };
  const second = await refresh(server, client, first.body.refresh_token, again);
  expect(second.status, JSON.stringify(second.body)).to.equal(200);
  expect(second.body.refresh_token).to.not.equal(first.body.refresh_token);
  expect(await isLetIn(link, second.body.access_token)).to.equal(true);
}

onEachStore('A client that registers itself', (system) => {
  for (const { metadata, ...habits } of REGISTRATIONS) {
    it(`is answered with what was stored, and connects: ${habits.name}`, async () => {
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const { status, headers, body } = await register(server, metadata);
      expect(status, JSON.stringify(body)).to.equal(201);
      expect(headers.get('content-type')).to.match(/^application\/json/);
      expect(headers.get('cache-control')).to.include('no-store');
      for (const member of Object.values(body)) expect(member).to.not.be.oneOf([null, '']);
      expect(body.redirect_uris).to.be.an('array').with.length.above(0);
      expect(metadata.redirect_uris).to.include.members(body.redirect_uris ?? []);
      expect(body.grant_types).to.include.members(['authorization_code', 'refresh_token']);
      expect(body.response_types).to.deep.equal(['code']);
      expect(body.token_endpoint_auth_method).to.equal(habits.method);
      expect(body.client_secret !== undefined).to.equal(habits.method !== 'none');

      const { client_id: id = '', client_secret: secret } = body;
      const { method, redirectUri } = habits;
      await goAllTheWay(system(), { id, secret, method, redirectUri }, habits);
    });
  }

  it('is told which of its addresses were kept', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const { body } = await register(server, {
      redirect_uris: [
        'cursor://callback',
        'http://localhost:8787/callback',
        'https://other.example/cb',
      ],
      token_endpoint_auth_method: 'none',
    });
    expect(body.redirect_uris).to.deep.equal(['http://localhost:8787/callback']);
  });

  it('keeps secrets: two clients never get the same id or secret', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const metadata = { redirect_uris: ['http://localhost/cb'], client_name: 'Twin' };
    const twins = await Promise.all([register(server, metadata), register(server, metadata)]);
    expect(new Set(twins.map(({ body }) => body.client_id)).size).to.equal(2);
    expect(new Set(twins.map(({ body }) => body.client_secret)).size).to.equal(2);
  });
});

onEachStore(
  'A client with a metadata document',
  (system) => {
    for (const { url: id, method, redirectUri, ...rest } of METADATA_DOCUMENTS) {
      it(`connects without registering: ${rest.name}`, async () => {
        const habits = { method, redirectUri, ...rest };
        await goAllTheWay(system(), { id, method, redirectUri }, habits);
      });
    }
  },
  {
    file: {
      clients: {
        metadataDocuments: METADATA_DOCUMENTS.map(({ url, document }) => ({ url, document })),
      },
    },
  },
);
