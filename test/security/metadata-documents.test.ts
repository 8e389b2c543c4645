// Clients that publish themselves (draft-ietf-oauth-client-id-metadata-document): only documents that are what they should be, from where the operator wants, and not too often.
import { expect } from 'chai';
import {
  answerWith,
  DOMAIN,
  publish,
} from '../authorization-server/metadata-documents/document-host.ts';
import { usePublishing } from '../authorization-server/metadata-documents/publishing.ts';
import { wrongSettings } from '../settings/settings-file.ts';
import {
  asksWho,
  describePage,
  openBrowser,
  requireDeparture,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { moveClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { authorizeUrl, type Client, discover, exchange, refresh } from '../support/oauth.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import type { StoreKind } from '../support/system.ts';

/** Longer than a document is kept unless it says so. */
const KEPT = 400;

function isAsked(step: Step): boolean {
  return asksWho(requirePage(step));
}

describe('A metadata document', () => {
  const publishing = usePublishing('sqlite');
  const accepted = ['http://127.0.0.1/callback'];

  const MALFORMED: Record<string, unknown> = {
    'of another client': { client_id: `https://app.${DOMAIN}/other.json` },
    'without a client_id': { client_id: undefined },
    'with a client_id that is no text': { client_id: 7 },
    'without return addresses': { redirect_uris: undefined },
    'with no return address': { redirect_uris: [] },
    'with return addresses that are one text': { redirect_uris: accepted[0] },
    'with return addresses that are objects': { redirect_uris: [{ uri: accepted[0] }] },
    'with more return addresses than anybody needs': {
      redirect_uris: Array.from({ length: 21 }, (_, n) => `http://127.0.0.1/${n}`),
    },
    'with a secret': { client_secret: 'x'.repeat(40) },
    'that authenticates with a secret': { token_endpoint_auth_method: 'client_secret_basic' },
    'that authenticates with keys only': { token_endpoint_auth_method: 'private_key_jwt' },
    'with a method that is no text': { token_endpoint_auth_method: ['none'] },
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
    it(`CIM-11 ${what} is refused, and nothing of it kept`, async () => {
      publishing().host.answer = publish(changes as Record<string, unknown>);
      await expectRefused(what);
    });
  }

  it('CIM-11 that is no JSON object, or does not say that it is JSON, is refused', async () => {
    for (const body of BODIES) {
      publishing().host.answer = answerWith(200, {}, body);
      await expectRefused(body);
    }
    for (const type of ['text/html', 'text/plain', 'application/jsonp', '']) {
      publishing().host.answer = publish({}, { 'content-type': type });
      await expectRefused(type);
    }
  });

  it('CIM-11 may say anything else, and keys never matter', async () => {
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

  it('that prefers keys and can do without them is taken, and works without', async () => {
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

  it('CIM-12 may name return addresses of its own origin, of this computer, and no others', async () => {
    const { host, newClient, visit, system, connector } = publishing();
    const own = `https://app.${DOMAIN}/cb`;
    const foreign = ['https://evil.example/cb', `https://app.${DOMAIN}.evil.example/cb`];
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
    expect(html).to.include(`app.${DOMAIN}`).and.not.include('id="local-warning"');
  });

  it('CIM-09 that takes an address back has it refused from the next time it is read', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    expect(isAsked(await visit(client))).to.equal(true);
    host.answer = publish({ redirect_uris: ['http://127.0.0.1/elsewhere'] });
    moveClock(KEPT);
    expect(requirePage(await visit(client)).status).to.equal(400);
    const moved = { ...client, redirectUri: 'http://127.0.0.1:7071/elsewhere' };
    expect(isAsked(await visit(moved))).to.equal(true);
  });

  it('CIM-08 is not forgotten because of many others', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    await visit(client);
    for (let others = 0; others < 15; others += 1)
      await Promise.all([1, 2, 3, 4].map(() => visit(newClient())));
    const asked = host.requests.length;
    expect(isAsked(await visit(client))).to.equal(true);
    expect(host.requests).to.have.length(asked);
  });
});

/** At a system behind one proxy that fetches for strangers no more often than `documents` says. */
function useAskers(store: StoreKind, inAll: string) {
  const publishing = usePublishing(
    store,
    ({ network }) => ({ network, limits: { failureTime: 0, perHost: 64 } }),
    { proxies: 1, limits: { documents: { perAddress: '60/10m', inAll }, sharedNetworks: [] } },
  );
  /** What is answered to somebody at `address` who is sent to authorize `client`. */
  async function askFrom(address: string, client: Client = publishing().newClient()) {
    const { connector } = publishing();
    const { server } = await discover(connector.link);
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    const headers = { 'x-forwarded-for': address, accept: 'text/html' };
    const response = await fetch(url, { headers, redirect: 'manual' });
    await response.body?.cancel();
    return response;
  }
  /** How often each status is answered to `count` people, one after the other, each with a client of their own. */
  async function statusesFrom(count: number, address: (n: number) => string) {
    const found: Record<number, number> = {};
    for (let n = 0; n < count; n += 1) {
      const { status } = await askFrom(address(n));
      found[status] = (found[status] ?? 0) + 1;
    }
    return found;
  }
  return { publishing, askFrom, statusesFrom };
}

for (const store of ['sqlite', 'redis'] as const)
  describe(`The documents of one host (${store})`, () => {
    const { publishing, askFrom, statusesFrom } = useAskers(store, '30/1m');
    const stranger = '198.51.100.66';

    it('CIM-06 are made up a dozen times by one address, and found by all others', async () => {
      const { host, newClient } = publishing();
      const [known, own] = [newClient(), newClient()];
      expect((await askFrom('198.51.100.1', known)).status).to.equal(303);
      expect((await askFrom(stranger, own)).status).to.equal(303);
      host.answer = answerWith(404);
      const connections = host.connections();
      expect(await statusesFrom(40, () => stranger)).to.deep.equal({ 400: 12, 429: 28 });
      expect(host.connections()).to.equal(connections + 12);
      host.answer = publish();
      const refused = await askFrom(stranger);
      expect(refused.status).to.equal(429);
      expect(refused.headers.get('retry-after')).to.match(/^\d+$/);
      const elsewhere = { ...newClient(), id: `https://other.${DOMAIN}/${store}.json` };
      expect((await askFrom(stranger, elsewhere)).status).to.equal(429);
      expect(await statusesFrom(16, (n) => `198.51.100.${n + 2}`)).to.deep.equal({ 303: 16 });
      for (const client of [known, own])
        expect((await askFrom(stranger, client)).status).to.equal(303);
      moveClock(KEPT);
      host.answer = publish({ redirect_uris: ['http://127.0.0.1/elsewhere'] });
      expect((await askFrom(stranger, known)).status).to.equal(400);
    });
  });

describe('The documents of a host that too many ask for', () => {
  const { publishing, askFrom, statusesFrom } = useAskers('sqlite', '10/1m');

  it('CIM-06 are found by whoever asks seldom, and asked for ten times as often and no more', async () => {
    const { host, newClient } = publishing();
    const known = newClient();
    expect((await askFrom('198.51.100.1', known)).status).to.equal(303);
    host.answer = answerWith(404);
    const connections = host.connections();
    expect(await statusesFrom(40, (n) => `203.0.113.${n}`)).to.deep.equal({ 400: 40 });
    expect(await statusesFrom(9, (n) => `203.0.113.${n % 3}`)).to.deep.equal({ 400: 3, 429: 6 });
    host.answer = publish();
    expect((await askFrom('198.51.100.2')).status).to.equal(303);
    host.answer = answerWith(404);
    await statusesFrom(80, (n) => `192.0.2.${n}`);
    expect(host.connections()).to.be.within(connections + 60, connections + 100);
    host.answer = publish();
    expect((await askFrom('198.51.100.3')).status).to.equal(429);
    expect((await askFrom('198.51.100.3', known)).status).to.equal(303);
    const elsewhere = { ...newClient(), id: `https://other.${DOMAIN}/client.json` };
    expect((await askFrom('198.51.100.3', elsewhere)).status).to.equal(303);
    moveClock(61);
    expect((await askFrom('198.51.100.3')).status).to.equal(303);
  });
});

describe('The documents that one process fetches from a host', () => {
  const publishing = usePublishing('sqlite', ({ network }) => ({
    network,
    limits: { failureTime: 0, perMinute: 30 },
  }));

  it('CIM-06 are so many in a minute, and who is known is not kept out', async () => {
    const { host, newClient, visit } = publishing();
    const known = newClient();
    expect(isAsked(await visit(known))).to.equal(true);
    host.answer = answerWith(404);
    const connections = host.connections();
    for (let n = 0; n < 40; n += 1) await visit(newClient());
    expect(host.connections()).to.equal(connections + 29);
    const refused = requirePage(await visit(newClient()));
    expect(refused.status).to.equal(503);
    expect(refused.headers.get('retry-after')).to.match(/^\d+$/);
    moveClock(KEPT);
    for (let n = 0; n < 40; n += 1) await visit(newClient());
    expect(isAsked(await visit(known))).to.equal(true);
    host.answer = publish();
    moveClock(61);
    expect(isAsked(await visit(newClient()))).to.equal(true);
  });
});

describe('Documents of chosen hosts', () => {
  const shared = 'https://raw.githubusercontent.com/somebody/client/main.json';
  const pinned = (url: string) => ({
    url,
    document: { client_id: url, client_name: 'Claude', redirect_uris: ['http://localhost/cb'] },
  });
  const publishing = usePublishing(
    'sqlite',
    ({ network }) => ({ network, limits: { failureTime: 0, perMinute: Infinity } }),
    {
      clients: {
        metadataDocumentHosts: [`app.${DOMAIN}`, `shared.${DOMAIN}/acme/`],
        metadataDocuments: [pinned(shared)],
      },
    },
  );

  it('CIM-10 are the only ones taken, down to the path, and no other is fetched', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    for (const id of [client.id, `https://shared.${DOMAIN}/acme/x.json`])
      expect(isAsked(await visit({ ...client, id })), id).to.equal(true);
    const connections = host.connections();
    for (const id of [
      `https://shared.${DOMAIN}/evil/x.json`,
      `https://shared.${DOMAIN}/acme.json`,
      `https://shared.${DOMAIN}/acme/../evil/x.json`,
      `https://shared.${DOMAIN}/acme/%2e%2e/evil/x.json`,
      `https://other.${DOMAIN}/acme/x.json`,
      `https://xapp.${DOMAIN}/x.json`,
      `https://app.${DOMAIN}.evil.example/x.json`,
    ])
      expect(requirePage(await visit({ ...client, id })).status, id).to.equal(400);
    expect(host.connections()).to.equal(connections);
  });

  it('CIM-10 where anybody may publish are shown as not verified', async () => {
    const { system, connector } = publishing();
    const { server } = await discover(connector.link);
    const client = { id: shared, method: 'none', redirectUri: 'http://localhost:1/cb' } as const;
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
    const page = await browser.openConsent(url);
    expect(page.html)
      .to.match(/not verified/i)
      .and.not.match(/identified by this address/i);
    const callback = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    await exchange(server, client, { callback, verifier });
    const { html } = requirePage(await browser.visit(`${system.auth}/account`));
    expect(html)
      .to.include('localhost:1')
      .and.not.match(/identified by this address/i);
  });

  it('CIM-14 are no addresses inside, whatever the settings say', () => {
    for (const host of [
      'localhost',
      '127.0.0.1',
      '[::1]',
      'http://x.example',
      'x.example:8443',
      '*',
    ])
      expect(wrongSettings({ clients: { metadataDocumentHosts: [host] } }), host).to.include(
        'clients.metadataDocumentHosts[0]',
      );
    expect(wrongSettings({ clients: { allowPrivateDocuments: true } })).to.include(
      'clients.allowPrivateDocuments',
    );
  });
});
