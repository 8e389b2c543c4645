import { expect } from 'chai';
import { answerWith, DOMAIN, publish } from '../oauth/metadata-documents/document-host.ts';
import { requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { authorizeUrl, type Client } from '../support/oauth.ts';
import type { StoreKind } from '../support/system.ts';
import { isAsked, KEPT, usePublishing } from '../oauth/metadata-documents/publishing.ts';

/** A system behind one proxy, with the limit of document fetches `inAll`. */
function useDocumentLimit(store: StoreKind, inAll: string) {
  const publishing = usePublishing(
    store,
    ({ network }) => ({ network, limits: { minFailureSeconds: 0, maxConcurrentPerHost: 64 } }),
    { proxies: 1, limits: { documents: { perAddress: '60/10m', inAll }, sharedNetworks: [] } },
  );
  /** The response to an authorization request of `client` from `address`. */
  async function authorizeFrom(address: string, client: Client = publishing().newClient()) {
    const { connector, server } = publishing();
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    const headers = { 'x-forwarded-for': address, accept: 'text/html' };
    const response = await fetch(url, { headers, redirect: 'manual' });
    await response.arrayBuffer();
    return response;
  }
  /** Sends `count` requests in sequence, each with a new client, and counts the response statuses. */
  async function statusesFrom(count: number, address: (n: number) => string) {
    const found: Record<number, number> = {};
    for (let n = 0; n < count; n += 1) {
      const { status } = await authorizeFrom(address(n));
      found[status] = (found[status] ?? 0) + 1;
    }
    return found;
  }
  return { publishing, authorizeFrom, statusesFrom };
}

for (const store of ['sqlite', 'redis'] as const)
  describe(`Failed document fetches from one address (${store})`, () => {
    const { publishing, authorizeFrom, statusesFrom } = useDocumentLimit(store, '30/1m');
    const attacker = '198.51.100.66';

    it('CIM-06 one address may cause twelve failed fetches, and other addresses still get documents', async () => {
      const { host, newClient } = publishing();
      const [known, own] = [newClient(), newClient()];
      expect((await authorizeFrom('198.51.100.1', known)).status).to.equal(303);
      expect((await authorizeFrom(attacker, own)).status).to.equal(303);
      host.answer = answerWith(404);
      const connections = host.connections();
      expect(await statusesFrom(16, () => attacker)).to.deep.equal({ 400: 12, 429: 4 });
      expect(host.connections()).to.equal(connections + 12);
      host.answer = publish();
      const refused = await authorizeFrom(attacker);
      expect(refused.status).to.equal(429);
      expect(refused.headers.get('retry-after')).to.match(/^\d+$/);
      const atOtherHost = { ...newClient(), id: `https://other.${DOMAIN}/${store}.json` };
      expect((await authorizeFrom(attacker, atOtherHost)).status).to.equal(429);
      expect(await statusesFrom(8, (n) => `198.51.100.${n + 2}`)).to.deep.equal({ 303: 8 });
      for (const client of [known, own])
        expect((await authorizeFrom(attacker, client)).status).to.equal(303);
      advanceClock(KEPT);
      host.answer = publish({ redirect_uris: ['http://127.0.0.1/atOtherHost'] });
      expect((await authorizeFrom(attacker, known)).status).to.equal(400);
    });
  });

describe('The limit of document fetches from one host', () => {
  const { publishing, authorizeFrom, statusesFrom } = useDocumentLimit('sqlite', '4/1m');

  it('CIM-06 addresses with few requests get ten times the limit, and known clients are not limited', async () => {
    const { host, newClient } = publishing();
    const known = newClient();
    expect((await authorizeFrom('198.51.100.1', known)).status).to.equal(303);
    host.answer = answerWith(404);
    const connections = host.connections();
    expect(await statusesFrom(16, (n) => `203.0.113.${n}`)).to.deep.equal({ 400: 16 });
    expect(await statusesFrom(9, (n) => `203.0.113.${n % 3}`)).to.deep.equal({ 400: 3, 429: 6 });
    host.answer = publish();
    expect((await authorizeFrom('198.51.100.2')).status).to.equal(303);
    host.answer = answerWith(404);
    await statusesFrom(32, (n) => `192.0.2.${n}`);
    expect(host.connections()).to.be.within(connections + 24, connections + 40);
    host.answer = publish();
    expect((await authorizeFrom('198.51.100.3')).status).to.equal(429);
    expect((await authorizeFrom('198.51.100.3', known)).status).to.equal(303);
    const atOtherHost = { ...newClient(), id: `https://other.${DOMAIN}/client.json` };
    expect((await authorizeFrom('198.51.100.3', atOtherHost)).status).to.equal(303);
    advanceClock(61);
    expect((await authorizeFrom('198.51.100.3')).status).to.equal(303);
  });
});

describe('The limit of document fetches from one host by one process', () => {
  const publishing = usePublishing('sqlite', ({ network }) => ({
    network,
    limits: { minFailureSeconds: 0, maxPerMinutePerHost: 30 },
  }));

  it('CIM-06 a process fetches 30 documents of a host a minute, and known clients are not limited', async () => {
    const { host, newClient, visit } = publishing();
    const known = newClient();
    expect(isAsked(await visit(known))).to.equal(true);
    host.answer = answerWith(404);
    const connections = host.connections();
    for (let n = 0; n < 32; n += 1) await visit(newClient());
    expect(host.connections()).to.equal(connections + 29);
    const refused = requirePage(await visit(newClient()));
    expect(refused.status).to.equal(503);
    expect(refused.headers.get('retry-after')).to.match(/^\d+$/);
    advanceClock(KEPT);
    for (let n = 0; n < 32; n += 1) await visit(newClient());
    expect(isAsked(await visit(known))).to.equal(true);
    host.answer = publish();
    advanceClock(61);
    expect(isAsked(await visit(newClient()))).to.equal(true);
  });
});
