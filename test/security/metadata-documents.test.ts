// draft-ietf-oauth-client-id-metadata-document
import { expect } from 'chai';
import { answerWith, DOMAIN, publish } from '../oauth/metadata-documents/document-host.ts';
import { describePage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { authorizeUrl, discover, refresh } from '../support/oauth.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { isAsked, KEPT, usePublishing } from '../oauth/metadata-documents/publishing.ts';

describe('A metadata document', () => {
  const publishing = usePublishing('sqlite');
  const accepted = ['http://127.0.0.1/callback'];

  const MALFORMED: Record<string, unknown> = {
    'of another client': { client_id: `https://app.${DOMAIN}/other.json` },
    'without a client_id': { client_id: undefined },
    'with a client_id that is not a string': { client_id: 7 },
    'without redirect_uris': { redirect_uris: undefined },
    'with empty redirect_uris': { redirect_uris: [] },
    'with redirect_uris that are a string': { redirect_uris: accepted[0] },
    'with redirect_uris that are objects': { redirect_uris: [{ uri: accepted[0] }] },
    'with 21 redirect_uris': {
      redirect_uris: Array.from({ length: 21 }, (_, n) => `http://127.0.0.1/${n}`),
    },
    'with a secret': { client_secret: 'x'.repeat(40) },
    'with client_secret_basic': { token_endpoint_auth_method: 'client_secret_basic' },
    'with private_key_jwt only': { token_endpoint_auth_method: 'private_key_jwt' },
    'with an authentication method that is not a string': { token_endpoint_auth_method: ['none'] },
  };
  const BODIES = ['null', '[]', '"text"', '7', '{', '', '<html></html>', '{"client_id":'];

  async function expectRefused(what: string): Promise<void> {
    const { system, newClient, visit } = publishing();
    const before = await countStoredKeys(system);
    const page = requirePage(await visit(newClient()));
    expect(page.status, `${what}: ${describePage(page)}`).to.equal(400);
    expect(await countStoredKeys(system), what).to.deep.equal(before);
  }

  for (const [what, changes] of Object.entries(MALFORMED)) {
    it(`CIM-11 a document ${what} is refused and not stored`, async () => {
      publishing().host.answer = publish(changes as Record<string, unknown>);
      await expectRefused(what);
    });
  }

  it('CIM-11 a document that is not a JSON object or not served as JSON is refused', async () => {
    for (const body of BODIES) {
      publishing().host.answer = answerWith(200, {}, body);
      await expectRefused(body);
    }
    for (const type of ['text/html', 'text/plain', 'application/jsonp', '']) {
      publishing().host.answer = publish({}, { 'content-type': type });
      await expectRefused(type);
    }
  });

  it('CIM-11 a document with other members is accepted, and its keys are not fetched', async () => {
    const { host, newClient, visit } = publishing();
    host.answer = publish({
      jwks: { keys: [{ kty: 'oct', k: 'c2VjcmV0' }] },
      jwks_uri: 'https://elsewhere.example/jwks',
      scope: 'anything',
      client_name: null,
      __proto__: { token_endpoint_auth_method: 'private_key_jwt' },
    });
    expect(isAsked(await visit(newClient()))).to.equal(true);
    expect(host.requests.every((path) => path.endsWith('.json'))).to.equal(true);
  });

  it('CIM-11 a document that prefers private_key_jwt and supports none is accepted as a public client', async () => {
    const { system, connector, host, newClient } = publishing();
    host.answer = publish({
      token_endpoint_auth_method: 'private_key_jwt',
      token_endpoint_auth_methods_supported: ['private_key_jwt', 'none'],
      jwks_uri: 'https://elsewhere.example/jwks',
    });
    const client = newClient();
    const { server, refreshToken } = await connect(system, connector, { as: { client } });
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  });

  it('CIM-12 redirect URIs of other origins are refused; those of its own origin and loopback are accepted', async () => {
    const { host, newClient, visit, system, connector } = publishing();
    const own = `https://app.${DOMAIN}/cb`;
    const foreign = [
      'https://evil.example/cb',
      `https://app.${DOMAIN}.evil.example/cb`,
      `https://evil-app.${DOMAIN}/cb`,
      `https://sub.app.${DOMAIN}/cb`,
      `https://app.${DOMAIN}:8443/cb`,
    ];
    host.answer = publish({ redirect_uris: [own, ...foreign] });
    expect(isAsked(await visit({ ...newClient(), redirectUri: own }))).to.equal(true);
    for (const redirectUri of [...foreign, `https://other.${DOMAIN}/cb`]) {
      const page = requirePage(await visit({ ...newClient(), redirectUri }));
      expect(page.status, redirectUri).to.equal(400);
    }
    const { server } = await discover(connector.link);
    const client = { ...newClient(), redirectUri: own };
    const browser = openBrowser(system.origins);
    const { html } = await browser.openConsent(
      authorizeUrl(server, client, { resource: connector.link }).url,
    );
    expect(html).to.include(`app.${DOMAIN}`).and.not.include('id="local-note"');
  });

  it('CIM-09 a redirect URI that was removed from a document is refused after the next fetch', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    expect(isAsked(await visit(client))).to.equal(true);
    host.answer = publish({ redirect_uris: ['http://127.0.0.1/elsewhere'] });
    advanceClock(KEPT);
    expect(requirePage(await visit(client)).status).to.equal(400);
    const moved = { ...client, redirectUri: 'http://127.0.0.1:7071/elsewhere' };
    expect(isAsked(await visit(moved))).to.equal(true);
  });

  it('CIM-08 a document stays cached after many others were fetched', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    await visit(client);
    for (let others = 0; others < 4; others += 1)
      await Promise.all([1, 2, 3, 4].map(() => visit(newClient())));
    const asked = host.requests.length;
    expect(isAsked(await visit(client))).to.equal(true);
    expect(host.requests).to.have.length(asked);
  });
});
