import { expect } from 'chai';
import { acquireUse, commitUses, findConnector } from '../../src/links/connectors.ts';
import { membersOf } from '../../src/json-values.ts';
import type { Connector } from '../../src/management/resources/connector.ts';
import { accessTo, gatehouse } from './command-line.ts';
import { KEYS, type ManagementHost, openManagementHost, request } from './management-host.ts';

const CONNECTORS = '/api/v1/connectors';

describe('a change of a connector over the management API', () => {
  let host: ManagementHost;
  let path: string;
  let created: Connector;
  beforeEach(async () => {
    host = await openManagementHost();
    created = await create({ name: 'Ops', level: 'operations' });
    path = `${CONNECTORS}/${created.id}`;
  });
  afterEach(() => host.close());

  async function create(body: object): Promise<Connector> {
    const answer = await request(host, 'POST', CONNECTORS, { body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body as Connector;
  }

  const patch = (body: unknown, headers: Record<string, string> = {}, query = '') =>
    request(host, 'PATCH', `${path}${query}`, { body, headers });

  async function audit(): Promise<Record<string, unknown>[]> {
    const { body } = await request(host, 'GET', '/api/v1/audit?event=connector_changed');
    return (body as { items: Record<string, unknown>[] }).items;
  }

  it('changes what is sent, keeps the rest, and null removes a member', async () => {
    const all = {
      name: 'Everything',
      level: 'admin',
      suggestedLevel: 'analytics',
      audience: [{ emailDomain: 'example.com' }],
      maxUses: 3,
      paused: true,
    };
    const { status, body } = await patch({ ...all, expiresIn: '30d' });
    expect(status).to.equal(200);
    const expiresAt = new Date((host.now() + 30 * 86_400) * 1000).toISOString();
    expect(body).to.deep.equal({ ...created, ...all, state: 'paused', expiresAt });
    const removed = {
      suggestedLevel: null,
      audience: null,
      maxUses: null,
      expiresAt: null,
      paused: false,
    };
    const { body: after } = await patch(removed);
    expect(after).to.deep.equal({ ...created, name: 'Everything', level: 'admin' });
    expect((await request(host, 'GET', path)).body).to.deep.equal(after);
  });

  it('never changes the id, the link or the server, and refuses unknown and wrong members', async () => {
    const wrong: [body: unknown, problem: string][] = [
      [{ id: 'x' }, 'unknown: id'],
      [{ link: 'https://example.com' }, 'unknown: link'],
      [{ upstream: 'default' }, 'unknown: upstream'],
      [{ uses: 0 }, 'unknown: uses'],
      [{ name: null }, 'name:'],
      [{ level: null }, 'level:'],
      [{ level: 'nothing' }, 'level: one of'],
      [{ paused: 'yes' }, 'paused: true or false'],
      [{ audience: [] }, 'audience:'],
      [{ maxUses: 0 }, 'maxUses:'],
      [{ suggestedLevel: 'full' }, 'suggestedLevel: at most the level of the connector'],
      [{ level: 'analytics', suggestedLevel: 'operations' }, 'suggestedLevel: at most'],
      [{ expiresIn: '1d', expiresAt: null }, 'either expiresIn or expiresAt'],
      [{ expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt: a time in the future'],
    ];
    for (const [body, problem] of wrong) {
      const answer = await patch(body);
      expect(answer.status, JSON.stringify(body)).to.equal(400);
      expect(answer.body['error_description']).to.include(problem);
    }
    expect((await request(host, 'GET', path)).body).to.deep.equal(created);
    expect(await audit()).to.deep.equal([]);
  });

  it('a level below the suggested one is no longer suggested', async () => {
    await patch({ level: 'full', suggestedLevel: 'operations' });
    const { body } = await patch({ level: 'analytics' });
    expect(body).to.include({ level: 'analytics' }).and.not.have.property('suggestedLevel');
  });

  it('requires the role operator, also for a dry run', async () => {
    const headers = { Authorization: `Bearer ${KEYS.viewer}` };
    for (const query of ['', '?dryRun=true'])
      expect((await patch({ name: 'Mine' }, headers, query)).status).to.equal(403);
    const operator = { Authorization: `Bearer ${KEYS.operator}` };
    expect((await patch({ name: 'Theirs' }, operator)).status).to.equal(200);
  });

  it('records what changed as it was and as it is, without the names in addresses', async () => {
    await patch({ level: 'analytics', audience: [{ email: 'ada@example.com' }] });
    await patch({ paused: true });
    await patch({ audience: null, paused: false });
    const items = (await audit()).map(({ arguments: details }) => {
      const { audienceDigests, ...changed } = membersOf(details);
      expect(JSON.stringify(audienceDigests ?? [])).to.match(/^\[("[\w-]{12}")?\]$/);
      return changed;
    });
    expect(items).to.deep.equal([
      {
        name: 'Ops',
        before: { audience: ['email:…@example.com'], paused: true },
        after: {},
      },
      { name: 'Ops', before: {}, after: { paused: true } },
      {
        name: 'Ops',
        before: { level: 'operations' },
        after: { level: 'analytics', audience: ['email:…@example.com'] },
      },
    ]);
    const [item] = await audit();
    expect(item).to.include({ by: 'key:default', connector: created.id, outcome: 'done' });
  });

  it('records that another person of the same domain is meant', async () => {
    await patch({ audience: [{ email: 'ada@example.com' }] });
    await patch({ audience: [{ email: 'grace@example.com' }] });
    const [item, earlier] = await audit();
    const audience = ['email:…@example.com'];
    const { audienceDigests, ...changed } = membersOf(item?.['arguments']);
    expect(changed).to.deep.equal({ name: 'Ops', before: { audience }, after: { audience } });
    const { audienceDigests: other } = membersOf(earlier?.['arguments']);
    expect(audienceDigests).to.have.length(1).and.not.deep.equal(other);
  });

  it('a change to what it is already is not recorded', async () => {
    const { status, body } = await patch({ name: 'Ops', paused: false, maxUses: null });
    expect([status, body]).to.deep.equal([200, created]);
    expect((await patch({})).status).to.equal(200);
    expect(await audit()).to.deep.equal([]);
  });

  it('the ETag of GET and PATCH is that of the members that can be changed', async () => {
    const read = async () => (await request(host, 'GET', path)).headers.get('etag') ?? '';
    const first = await read();
    expect(first).to.match(/^"[\w-]{22}"$/);
    const changed = await patch({ name: 'Other' });
    expect(changed.headers.get('etag')).to.equal(await read());
    expect(await read()).to.not.equal(first);
    await patch({ name: 'Ops' });
    expect(await read()).to.equal(first);
  });

  it('CHG-01 a stale If-Match is 412 and changes nothing', async () => {
    const { headers } = await request(host, 'GET', path);
    const etag = headers.get('etag') ?? '';
    expect((await patch({ name: 'First' }, { 'if-match': etag })).status).to.equal(200);
    const other = [`W/${etag}`, `"other", ${etag}`, 'nonsense', `${etag}x`, '"*"'];
    for (const stale of [etag, ...other]) {
      const answer = await patch({ name: 'Second' }, { 'if-match': stale });
      expect([answer.status, answer.body['error']], stale).to.deep.equal([
        412,
        'changed_meanwhile',
      ]);
      const dry = await patch({ name: 'Second' }, { 'if-match': stale }, '?dryRun=true');
      expect(dry.status, stale).to.equal(412);
    }
    const current = (await request(host, 'GET', path)).headers.get('etag') ?? '';
    expect((await patch({}, { 'if-match': `"other", ${current}` })).status).to.equal(200);
    expect((await patch({}, { 'if-match': `"an,other",,${current}` })).status).to.equal(200);
    expect((await patch({}, { 'if-match': '*' })).status).to.equal(200);
    for (const mixed of [`*, ${current}`, `${current}, *`, `other, ${current}`, `"${current}"`])
      expect((await patch({}, { 'if-match': mixed })).status, mixed).to.equal(412);
    expect((await request(host, 'GET', path)).body).to.include({ name: 'First' });
  });

  it('CHG-01 of administrators who save what they read at once, one succeeds and the others get 412', async () => {
    const { headers } = await request(host, 'GET', path);
    const match = { 'if-match': headers.get('etag') ?? '' };
    const names = ['One', 'Two', 'Three', 'Four', 'Five'];
    const answers = await Promise.all(names.map((name) => patch({ name }, match)));
    expect(answers.map(({ status }) => status).toSorted()).to.deep.equal([200, 412, 412, 412, 412]);
    expect(await audit()).to.have.length(1);
  });

  it('changes of different members at once are all made', async () => {
    const changes = [{ name: 'Other' }, { level: 'full' }, { maxUses: 7 }, { paused: true }];
    await Promise.all(changes.map((change) => patch(change)));
    expect((await request(host, 'GET', path)).body).to.include(Object.assign({}, ...changes));
    expect(await audit()).to.have.length(4);
  });

  it('CHG-02 a revoked or expired connector is 409, a deleted one 404, and none comes back', async () => {
    await patch({ expiresIn: '1d' });
    host.clock.ahead = 86_400;
    const expired = await patch({ expiresAt: null });
    expect([expired.status, expired.body['error']]).to.deep.equal([409, 'connector_ended']);
    await request(host, 'DELETE', path);
    expect((await patch({ expiresAt: null, paused: false })).status).to.equal(409);
    expect((await request(host, 'GET', path)).body).to.include({ state: 'revoked' });
    await request(host, 'POST', `${path}/delete`);
    expect((await patch({ name: 'Back' })).status).to.equal(404);
    expect((await request(host, 'GET', path)).status).to.equal(404);
    expect((await request(host, 'GET', CONNECTORS)).body).to.deep.equal({ items: [] });
  });

  it('CHG-02 a change at the same time as a revocation or a deletion never undoes it', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await create({ name: `Round ${round}`, level: 'full' });
      const own = `${CONNECTORS}/${id}`;
      const change = (n: number) => request(host, 'PATCH', own, { body: { name: `Name ${n}` } });
      const [, ...during] = await Promise.all([
        request(host, 'DELETE', own),
        ...[1, 2, 3].map(change),
      ]);
      for (const { status } of during) expect(status).to.be.oneOf([200, 409]);
      expect((await request(host, 'GET', own)).body).to.include({ state: 'revoked' });
      const [, ...after] = await Promise.all([
        request(host, 'POST', `${own}/delete`),
        ...[1, 2, 3].map(change),
      ]);
      for (const { status } of after) expect(status).to.be.oneOf([404, 409]);
      expect((await request(host, 'GET', own)).status).to.equal(404);
    }
  });

  it('CHG-06 changes while uses are taken lose no use, and the limit stays exact', async () => {
    const limited = await create({ name: 'Limited', level: 'full', maxUses: 5 });
    const now = host.now();
    const uses = { now, isActive: async () => false };
    const take = (n: number) => {
      const reservation = { holder: `holder ${n}`, grantId: `grant ${n}`, reservedUntil: now + 60 };
      return acquireUse(host.store, limited.id, reservation, uses);
    };
    const rename = (n: number) =>
      request(host, 'PATCH', `${CONNECTORS}/${limited.id}`, { body: { name: `Name ${n}` } });
    const turns = Array.from({ length: 12 }, (_, n) => n);
    const [taken] = await Promise.all([
      Promise.all(turns.map(take)),
      Promise.all(turns.map(rename)),
    ]);
    expect(taken.filter(Boolean)).to.have.length(5);
    const stored = await findConnector(host.store, limited.id);
    expect(stored?.uses).to.have.length(5);
    expect(stored?.name).to.match(/^Name \d+$/);
    const shown = await request(host, 'GET', `${CONNECTORS}/${limited.id}`);
    expect(shown.body).to.include({ state: 'used-up' });
  });

  it('the ETag stays the same when a use is taken', async () => {
    const body = { name: 'Limited', level: 'full', maxUses: 5 };
    const { id } = await create(body);
    const read = () => request(host, 'GET', `${CONNECTORS}/${id}`);
    const { headers } = await read();
    await commitUses(host.store, id, [{ holder: 'holder', grantId: 'grant' }]);
    const after = await read();
    expect(after.body).to.include({ uses: 1 });
    expect(after.headers.get('etag')).to.equal(headers.get('etag'));
  });

  it('the list has paused connectors, also by their state', async () => {
    await create({ name: 'Active', level: 'full' });
    await patch({ paused: true });
    const { body } = await request(host, 'GET', `${CONNECTORS}?state=paused`);
    const items = (body as { items: Connector[] }).items;
    expect(items.map(({ name, state }) => [name, state])).to.deep.equal([['Ops', 'paused']]);
  });

  it('gatehouse connector update changes and removes members', async () => {
    const options =
      '--name Other --level full --suggest analytics --max-uses 4 --expires 2040-01-01';
    const update = (words: string) =>
      gatehouse(['connector', 'update', created.id, ...words.split(' '), '--json'], accessTo(host));
    const { code, stdout, stderr } = await update(`${options} --for domain:example.com --pause`);
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).to.deep.include({
      name: 'Other',
      level: 'full',
      suggestedLevel: 'analytics',
      maxUses: 4,
      expiresAt: '2040-01-01T00:00:00.000Z',
      audience: [{ emailDomain: 'example.com' }],
      state: 'paused',
    });
    const removal = '--suggest none --max-uses unlimited --expires never --for everyone --resume';
    const removed = await update(removal);
    expect(removed.stderr).to.equal('');
    expect(JSON.parse(removed.stdout)).to.deep.equal({ ...created, name: 'Other', level: 'full' });
  });

  it('gatehouse connector update --dry-run changes nothing', async () => {
    const words = ['connector', 'update', 'Ops', '--level', 'analytics', '--dry-run'];
    const { code, stdout } = await gatehouse(words, accessTo(host));
    expect(code).to.equal(0);
    expect(stdout).to.match(/^Nothing was changed\. The connector would be:\n[^]*analytics/);
    expect(stdout).to.include('No connection would stop or have a lower level.');
    expect((await request(host, 'GET', path)).body).to.deep.equal(created);
    expect(await audit()).to.deep.equal([]);
  });
});
