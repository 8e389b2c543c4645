import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { documentOf, RECORDED_CLIENTS } from '../interoperability/recorded-clients.ts';
import {
  createConnector,
  listGrants,
  requestManagement,
  readAudit,
  showConnector,
  showGrant,
} from '../support/management-api.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { connect, obtainCode, REDIRECT_URI, registerClient } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, type Client, discover, exchange } from '../support/oauth.ts';
import { onEachStore } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  expectAlive,
  present,
  connectWithRefreshToken,
  times,
} from '../connections/token-family.ts';

const [DOCUMENT] = RECORDED_CLIENTS.map(documentOf).filter((document) => document !== undefined);
if (!DOCUMENT) throw new Error('there is a document');
const FIXED = { id: 'desk-app', name: 'Desk app', redirectUris: [REDIRECT_URI] };

const KINDS: { kind: string; client: Client | undefined }[] = [
  { kind: 'self-registered', client: undefined },
  {
    kind: 'metadata-document',
    client: { id: DOCUMENT.url, method: 'none', redirectUri: DOCUMENT.redirectUri },
  },
  {
    kind: 'pre-registered',
    client: { id: FIXED.id, method: 'none', redirectUri: REDIRECT_URI },
  },
];

const file = {
  clients: {
    preRegistered: [FIXED],
    metadataDocuments: [{ url: DOCUMENT.url, document: DOCUMENT.published }],
  },
};

onEachStore(
  'Clients over the management API',
  (system, store) => {
    const list = async (query = '') =>
      (await requestManagement(system(), 'GET', `/clients?limit=1000${query}`)) as {
        items: { id: string; kind: string; state: string }[];
        next?: string;
      };
    const change = async (name: 'revoke' | 'allow', id: string) =>
      (await requestManagement(system(), 'POST', `/clients/${name}`, { id })) as Record<
        string,
        unknown
      >;

    // The store does not know the kind of a client.
    for (const { kind, client } of store === 'sqlite' ? KINDS : KINDS.slice(0, 1)) {
      const options = client ? { as: { client } } : {};

      it(`DCR-09 revoking a client ends all its grants, refreshes and calls (${kind})`, async () => {
        const connectors = await times(2, () => createConnector(system()));
        const bystander = await connectWithRefreshToken(system());
        const first = await connectWithRefreshToken(
          system(),
          { ...options, person: 'ada' },
          connectors[0],
        );
        const again = { as: { client: first.client } };
        const second = await connectWithRefreshToken(
          system(),
          { ...again, person: 'grace' },
          connectors[1],
        );
        for (const { link, accessToken } of [first, second])
          expect(await isAccepted(link, accessToken)).to.equal(true);
        expect(await change('revoke', first.client.id)).to.include({
          state: 'revoked',
          kind,
          endedGrants: 2,
        });
        for (const family of [first, second]) {
          await until('shut out', async () => !(await isAccepted(family.link, family.accessToken)));
          const { status, body } = await present(family, family.refreshToken);
          expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
          const id = String(decodeJwt(family.accessToken).grant_id);
          expect(await showGrant(system(), id)).to.include({ reason: 'client_revoked' });
        }
        await expectAlive(bystander, bystander);
        expect(await change('revoke', first.client.id)).to.include({ endedGrants: 0 });
        const events = (await readAudit(system())).filter(
          ({ event, clientId }) => event === 'client_revoked' && clientId === first.client.id,
        );
        expect(events).to.have.length(1);
        await change('allow', first.client.id);
      });

      it(`a revoked client gets no consent page until it is allowed again (${kind})`, async () => {
        const connector = await createConnector(system());
        const family = await connectWithRefreshToken(system(), options, connector);
        await change('revoke', family.client.id);
        const { server } = await discover(connector.link);
        const { url } = authorizeUrl(server, family.client, { resource: connector.link });
        for (const browser of [openBrowser(system().origins), family.browser]) {
          const page = requirePage(await browser.visit(url));
          expect([page.status, page.forms.length]).to.deep.equal([403, 0]);
        }
        expect(await change('allow', family.client.id)).to.include({ state: 'allowed' });
        await connect(system(), connector, { as: { client: family.client } });
        expect(await present(family, family.refreshToken)).to.have.nested.property(
          'body.error',
          'invalid_grant',
        );
      });

      it(`approving on a consent page opened before the revocation connects nothing (${kind})`, async () => {
        const connector = await createConnector(system());
        const { server } = await discover(connector.link);
        const asking = client ?? (await registerClient(server));
        const { url } = authorizeUrl(server, asking, { resource: connector.link });
        const browser = openBrowser(system().origins);
        const page = await browser.openConsent(url);
        if (client) await change('revoke', asking.id);
        else {
          await connect(system(), connector, { as: { client: asking } });
          await change('revoke', asking.id);
        }
        const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
        expect(answer.status).to.equal(403);
        const { items } = await listGrants(system(), { client: asking.id, state: 'active' });
        expect(items).to.deep.equal([]);
        await change('allow', asking.id);
      });

      it(`revoking a client returns the use of an approval whose tokens were not fetched (${kind})`, async () => {
        const connector = await createConnector(system(), { maxUses: 1 });
        const { client: asking } = await obtainCode(system(), connector, options);
        expect(await change('revoke', asking.id)).to.include({ endedGrants: 1 });
        await change('allow', asking.id);
        const { uses } = await showConnector(system(), connector.id);
        expect(uses).to.equal(0);
      });

      it(`connected clients are listed (${kind})`, async () => {
        const { server } = await discover((await createConnector(system())).link);
        const unused = await registerClient(server);
        const { client: used } = await connectWithRefreshToken(system(), options);
        const { items } = await list();
        expect(items.filter(({ id }) => id === used.id)).to.have.length(1);
        expect(items.map(({ id }) => id)).to.not.include(unused.id);
        const [shown, ...others] = (await list(`&id=${encodeURIComponent(used.id)}`)).items;
        expect(others).to.deep.equal([]);
        expect(shown).to.include({ id: used.id, kind, state: 'allowed' });
      });
    }

    it('approvals that race with the revocation of the client leave nobody connected', async () => {
      const connector = await createConnector(system());
      const { server, client } = await connectWithRefreshToken(system(), {}, connector);
      const asked = await times(5, async () => {
        const browser = openBrowser(system().origins);
        const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
        return { browser, verifier, page: await browser.openConsent(url) };
      });
      const approving = asked.map(({ browser, page }) =>
        browser.submit(page, { decision: 'approve' }),
      );
      const [steps] = await Promise.all([Promise.all(approving), change('revoke', client.id)]);
      for (const [index, step] of steps.entries()) {
        if (step.kind === 'page' || !step.url.searchParams.has('code')) continue;
        const { verifier } = asked[index] ?? { verifier: '' };
        const { body } = await exchange(server, client, { callback: step.url, verifier });
        expect(body.error).to.equal('invalid_grant');
      }
      for (const state of ['active', 'pending'])
        expect((await listGrants(system(), { client: client.id, state })).items).to.deep.equal([]);
    });

    it('LOG-08 an app that is allowed although it did not wait is recorded once, with name and destinations, and listed', async () => {
      const connector = await createConnector(system());
      const { id } = await registerClient((await discover(connector.link)).server);
      const before = (await list()).items.map((client) => client.id);
      expect(before).to.not.include(id);
      await change('allow', id);
      await change('allow', id);
      const items = (await readAudit(system())).filter(({ clientId }) => clientId === id);
      expect(
        items.map(({ event, arguments: details }) => [event, details]).slice(-1),
      ).to.deep.equal([['client_allowed', { name: 'Test client', destinations: ['loopback'] }]]);
      expect(items.filter(({ event }) => event === 'client_allowed')).to.have.length(1);
      expect((await list()).items.map((client) => client.id)).to.include(id);
    });

    it('the list of machines has all of them, page by page, and nothing else', async () => {
      const { id: connector } = await createConnector(system());
      const created = await Promise.all(
        ['One', 'Two', 'Three'].map(
          async (name) =>
            (await requestManagement(system(), 'POST', '/clients', {
              name,
              connector,
              level: 'analytics',
            })) as { id: string },
        ),
      );
      await connectWithRefreshToken(system());
      const all = await list('&kind=machine');
      expect(all.items.map(({ id }) => id)).to.include.members(created.map(({ id }) => id));
      expect(new Set(all.items.map(({ kind }) => kind))).to.deep.equal(new Set(['machine']));
      const found: string[] = [];
      for (let after = ''; ;) {
        const page = (await requestManagement(
          system(),
          'GET',
          `/clients?kind=machine&limit=2${after}`,
        )) as Awaited<ReturnType<typeof list>>;
        found.push(...page.items.map(({ id }) => id));
        if (page.next === undefined) break;
        after = `&after=${encodeURIComponent(page.next)}`;
      }
      expect(found).to.deep.equal(all.items.map(({ id }) => id));
      const apps = await list('&kind=self-registered');
      expect(new Set(apps.items.map(({ kind }) => kind))).to.deep.equal(
        new Set(['self-registered']),
      );
    });

    it('the pages of the list contain every client once', async () => {
      await times(3, () => connectWithRefreshToken(system()));
      const all = (await list()).items.map(({ id }) => id);
      const first = (await requestManagement(system(), 'GET', '/clients?limit=2')) as Awaited<
        ReturnType<typeof list>
      >;
      const rest = await list(`&after=${encodeURIComponent(first.next ?? '')}`);
      expect([...first.items, ...rest.items].map(({ id }) => id)).to.deep.equal(all);
    });
  },
  { file },
);
