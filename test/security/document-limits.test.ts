// How often the metadata documents of clients are fetched for strangers: no one keeps others or known clients out.
import { expect } from 'chai';
import {
  answerWith,
  DOMAIN,
  publish,
} from '../authorization-server/metadata-documents/document-host.ts';
import { requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { authorizeUrl, type Client, discover } from '../support/oauth.ts';
import type { StoreKind } from '../support/system.ts';
import {
  isAsked,
  KEPT,
  usePublishing,
} from '../authorization-server/metadata-documents/publishing.ts';

/** At a system behind one proxy that fetches for strangers no more often than `documents` says. */
function useAskers(store: StoreKind, inAll: string) {
  const publishing = usePublishing(
    store,
    ({ network }) => ({ network, limits: { minFailureSeconds: 0, maxConcurrentPerHost: 64 } }),
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
      advanceClock(KEPT);
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
    advanceClock(61);
    expect((await askFrom('198.51.100.3')).status).to.equal(303);
  });
});

describe('The documents that one process fetches from a host', () => {
  const publishing = usePublishing('sqlite', ({ network }) => ({
    network,
    limits: { minFailureSeconds: 0, maxPerMinutePerHost: 30 },
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
    advanceClock(KEPT);
    for (let n = 0; n < 40; n += 1) await visit(newClient());
    expect(isAsked(await visit(known))).to.equal(true);
    host.answer = publish();
    advanceClock(61);
    expect(isAsked(await visit(newClient()))).to.equal(true);
  });
});
