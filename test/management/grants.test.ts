import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  createConnector,
  listGrants,
  requestManagement,
  showGrant,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { onEachStore } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  type TokenFamily,
  expectAlive,
  expectEnded,
  connectWithRefreshToken,
  times,
} from '../connections/token-family.ts';

const claimOf = ({ accessToken }: Pick<TokenFamily, 'accessToken'>, name: string) =>
  String(decodeJwt(accessToken)[name]);

onEachStore('Grants over the management API', (system) => {
  it('a grant shows person, client, connector, level and times', async () => {
    const connector = await createConnector(system(), { name: 'Figures', level: 'admin' });
    const family = await connectWithRefreshToken(system(), { level: 'analytics' }, connector);
    const grant = await showGrant(system(), claimOf(family, 'grant_id'));
    expect(grant).to.deep.include({
      state: 'active',
      level: 'analytics',
      connector: connector.id,
      connectorName: 'Figures',
      account: claimOf(family, 'sub'),
      accountName: 'Ada Lovelace',
      clientId: family.client.id,
      clientName: 'Test client',
      redirectHost: '127.0.0.1:7070',
      refusals: [],
    });
    for (const member of ['createdAt', 'lastUsedAt', 'expiresAt'])
      expect(grant[member], member).to.match(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(grant).to.not.have.any.keys('reason', 'endedAt', 'explanation');
  });

  it('grants are filtered by connector, account, client and state, alone and combined', async () => {
    const [one, other] = await times(2, () => createConnector(system()));
    const ada = await connectWithRefreshToken(system(), { person: 'ada' }, one);
    const grace = await connectWithRefreshToken(system(), { person: 'grace' }, one);
    const elsewhere = await connectWithRefreshToken(
      system(),
      { person: 'ada', as: { client: ada.client } },
      other,
    );
    const idsOf = async (query: Record<string, string>) =>
      (await listGrants(system(), { limit: '1000', ...query })).items.map(({ id }) => id);
    const [a, g, e] = [ada, grace, elsewhere].map((family) => claimOf(family, 'grant_id'));
    expect(await idsOf({ connector: claimOf(ada, 'connector') })).to.have.members([a, g]);
    expect(await idsOf({ client: ada.client.id })).to.have.members([a, e]);
    expect(await idsOf({ account: claimOf(grace, 'sub') }))
      .to.include(g)
      .and.not.include(a);
    const both = { client: ada.client.id, connector: claimOf(elsewhere, 'connector') };
    expect(await idsOf(both)).to.deep.equal([e]);
    expect(await idsOf({})).to.include.members([a, g, e]);
    await requestManagement(system(), 'DELETE', `/grants/${a}`);
    expect(await idsOf({ client: ada.client.id, state: 'active' })).to.deep.equal([e]);
    expect(await idsOf({ client: ada.client.id, state: 'ended' })).to.deep.equal([a]);
    expect(await idsOf({ client: 'nobody' })).to.deep.equal([]);
  });

  it('the pages contain every grant once, for one connector and for all', async () => {
    const [connector, other] = await times(2, () => createConnector(system()));
    const families = [
      ...(await times(3, () => connectWithRefreshToken(system(), {}, connector))),
      await connectWithRefreshToken(system(), {}, other),
    ];
    const pagesOf = async (query: Record<string, string>) => {
      const ids: string[] = [];
      for (let after: string | undefined; ;) {
        const page = await listGrants(system(), {
          limit: '2',
          ...query,
          ...(after ? { after } : {}),
        });
        expect(page.items.length).to.be.within(0, 2);
        ids.push(...page.items.map(({ id }) => id));
        after = page.next;
        if (after === undefined) return ids;
      }
    };
    const all = await pagesOf({});
    expect(all).to.include.members(families.map((family) => claimOf(family, 'grant_id')));
    expect(new Set(all).size).to.equal(all.length);
    expect(await pagesOf({ connector: String(connector?.id) })).to.have.length(3);
  });

  it('a revoked grant ends at once, and revoking it again changes nothing', async () => {
    const [family, bystander] = await times(2, () => connectWithRefreshToken(system()));
    if (!family || !bystander) throw new Error('two were started');
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    const path = `/grants/${claimOf(family, 'grant_id')}`;
    const first = await requestManagement(system(), 'DELETE', path);
    expect(first).to.include({ state: 'ended', reason: 'revoked_by_administrator' });
    await until(
      'the token to be refused',
      async () => !(await isAccepted(family.link, family.accessToken)),
    );
    await expectEnded(family, { accessTokens: [], refreshTokens: [family.refreshToken] });
    expect(await requestManagement(system(), 'DELETE', path)).to.deep.equal(first);
    await expectAlive(bystander, bystander);
  });
});
