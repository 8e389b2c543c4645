// Files of connectors, machines and rules that are applied while people use them.
import { expect } from 'chai';
import type { Applied, ExportedFile } from '../../src/management/resources/apply.ts';
import {
  assertionParameters,
  createAssertion,
  generateAssertionKey,
} from '../support/client-assertion.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, REDIRECT_URI } from '../support/connection.ts';
import { listGrants, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { type Client, discover, register, requestToken, type Server } from '../support/oauth.ts';
import { SOAK } from '../support/soak.ts';
import { onEachStore } from '../support/system.ts';

const MAX_SECONDS = 5;

const inSeconds = (seconds: number) =>
  new Date((Math.floor(Date.now() / 1000) + seconds) * 1000).toISOString();

onEachStore('A file that is applied', (system, store) => {
  const apply = async (file: object, query = ''): Promise<Applied> =>
    (await requestManagement(system(), 'POST', `/apply${query}`, file)) as Applied;
  const exported = async () =>
    (await requestManagement(system(), 'GET', '/export')) as ExportedFile;
  const linkOf = async (key: string) => {
    const { items } = (await requestManagement(system(), 'GET', '/connectors?limit=1000')) as {
      items: { key?: string; link: string }[];
    };
    return { link: items.find((each) => each.key === key)?.link ?? '' };
  };

  async function app(server: Server, name: string): Promise<Client> {
    const { body } = await register(server, {
      client_name: name,
      redirect_uris: [REDIRECT_URI],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
    return {
      id: body.client_id ?? '',
      secret: undefined,
      method: 'none',
      redirectUri: REDIRECT_URI,
    };
  }

  type Rights = { state: string; level?: string | undefined };

  async function rights(): Promise<Map<string, Rights>> {
    const { items } = await listGrants(system(), { limit: '1000' });
    return new Map(items.map(({ id, state, level }) => [id, { state, level }]));
  }

  it('APL-05 a dry run names by id, person and app exactly those who lose access when it is applied', async () => {
    const levels = {
      kept: 'full',
      ended: 'full',
      lowered: 'full',
      narrowed: 'full',
      paused: 'full',
      shortened: 'full',
    };
    const connectors = Object.entries(levels).map(([key, level]) => ({ key, name: key, level }));
    await apply({ connectors });
    const { server } = await discover((await linkOf('kept')).link);
    const apps = { desk: await app(server, 'Desk'), phone: await app(server, 'Phone') };
    const tokens = new Map<string, { link: string; accessToken: string }>();
    for (const { key } of connectors)
      for (const person of ['ada', 'grace'] as const)
        for (const [name, client] of Object.entries(apps)) {
          if (name === 'phone' && key !== 'kept') continue;
          const as = { person, as: { client }, level: 'operations' };
          const connection = await connect(system(), await linkOf(key), as);
          tokens.set(`${key} ${person} ${name}`, connection);
        }
    const file = {
      connectors: [
        { key: 'kept', name: 'Kept', level: 'full' },
        { key: 'lowered', name: 'lowered', level: 'analytics' },
        {
          key: 'narrowed',
          name: 'narrowed',
          level: 'full',
          audience: [{ email: 'ada@example.com' }],
        },
        { key: 'paused', name: 'paused', level: 'full', paused: true },
        { key: 'shortened', name: 'shortened', level: 'full', expiresAt: inSeconds(3600) },
      ],
      clientRules: [{ key: 'phone', effect: 'block', name: 'Phone' }],
    };
    const before = await rights();
    const dry = await apply(file, '?dryRun=true&prune=true');
    expect(await rights()).to.deep.equal(before);
    const done = await apply(file, '?prune=true');
    expect(done.affected).to.have.deep.members(dry.affected);
    const after = await rights();
    const lost = [...before].filter(
      ([id, { state, level }]) => after.get(id)?.state !== state || after.get(id)?.level !== level,
    );
    const [later, atOnce] = [true, false].map((isLater) =>
      dry.affected.filter(({ after: { endsAt } }) => (endsAt !== undefined) === isLater),
    );
    expect(atOnce?.map(({ grantId }) => grantId)).to.have.members(lost.map(([id]) => id));
    for (const { grantId, after: foretold } of atOnce ?? []) {
      const { state, level } = after.get(grantId) ?? { state: 'gone' };
      expect({ state, level }).to.deep.equal({ state: foretold.state, level: foretold.level });
    }
    const named = dry.affected.map(({ account, client, after: { reason = 'lower level' } }) =>
      [account.name, client.name, reason].join(', '),
    );
    expect(named).to.have.members([
      'Ada Lovelace, Desk, connector_revoked',
      'Grace Hopper, Desk, connector_revoked',
      'Ada Lovelace, Desk, lower level',
      'Grace Hopper, Desk, lower level',
      'Grace Hopper, Desk, not_in_audience',
      'Ada Lovelace, Desk, connector_paused',
      'Grace Hopper, Desk, connector_paused',
      'Ada Lovelace, Phone, client_blocked',
      'Grace Hopper, Phone, client_blocked',
      'Ada Lovelace, Desk, connector_expired',
      'Grace Hopper, Desk, connector_expired',
    ]);
    const works = async ([, { link, accessToken }]: [
      string,
      { link: string; accessToken: string },
    ]) => (await callTool(link, accessToken, 'list_regions')).status === 200;
    const kept = [...tokens].filter(([name]) => /^(kept|lowered|narrowed ada).* desk/.test(name));
    expect(await Promise.all(kept.map(works))).to.deep.equal(Array(5).fill(true));
    const others = [...tokens].filter(([name]) => /^ended|^narrowed grace|phone/.test(name));
    expect(await Promise.all(others.map(works))).to.deep.equal(Array(5).fill(false));
    const shortened = [...tokens].filter(([name]) => name.startsWith('shortened'));
    expect(await Promise.all(shortened.map(works))).to.deep.equal([true, true]);
    advanceClock(3601);
    expect(await Promise.all(shortened.map(works))).to.deep.equal([false, false]);
    const ended = await rights();
    for (const { grantId, after: foretold } of later ?? [])
      expect(ended.get(grantId)?.state).to.equal(foretold.state);
    expect(later).to.have.length(2);
  });

  it('APL-05 a dry run says who may lose tools that are not known, of people and machines, and so does the run', async () => {
    const key = await generateAssertionKey();
    const machine = (name: string) => ({
      key: name,
      name,
      connector: 'narrow',
      level: 'operations',
      jwks: { keys: [key.jwk] },
      expiresAt: inSeconds(86_400),
    });
    const narrow = { key: 'narrow', name: 'Narrow', level: 'full' };
    const machines = ['nightly', 'hourly'].map(machine);
    await apply({ connectors: [narrow], machines });
    await connect(system(), await linkOf('narrow'), { level: 'operations' });
    const losers = async (file: object) => {
      const dry = await apply(file, '?dryRun=true');
      const done = await apply(file);
      expect(done.affected).to.have.deep.members(dry.affected);
      return dry.affected.map(({ account: { name = '' }, mayLoseUnknown, before, after }) => {
        expect([mayLoseUnknown, after]).to.deep.equal([true, before]);
        return name;
      });
    };
    const [nightly, hourly] = machines;
    expect(await losers({ machines: [{ ...nightly, tools: ['list_*'] }, hourly] })).to.deep.equal([
      'nightly',
    ]);
    expect(await losers({ machines })).to.deep.equal([]);
    const lists = (tools: string[]) => ({ connectors: [{ ...narrow, tools }] });
    expect(await losers(lists(['list_*', 'get_*', 'resource:*', 'prompt:*']))).to.have.members([
      'Ada Lovelace',
      'nightly',
      'hourly',
    ]);
    expect(await losers(lists(['*', '!get_secret', 'resource:*', 'prompt:*']))).to.have.length(3);
    expect(await losers(lists(['!get_secret']))).to.deep.equal([]);
    expect(await losers({ connectors: [narrow] })).to.deep.equal([]);
  });

  it('a revoked machine is replaced by a new one with the key of its record, which connects, and only once', async () => {
    const key = await generateAssertionKey();
    const file = {
      connectors: [{ key: 'nightly', name: 'Nightly', level: 'operations' }],
      machines: [
        {
          key: 'ci',
          name: 'CI',
          connector: 'nightly',
          level: 'operations',
          jwks: { keys: [key.jwk] },
          expiresAt: inSeconds(86_400),
        },
      ],
    };
    const { link } = (await apply(file), await linkOf('nightly'));
    const { server } = await discover(link);
    const tokenOf = async (id: string) => {
      const client = { id, secret: undefined, method: 'none' as const, redirectUri: '' };
      const assertion = await createAssertion(key, { client, server });
      const parameters = { grant_type: 'client_credentials', resource: link };
      return requestToken(server, client, { ...parameters, ...assertionParameters(assertion) });
    };
    const idOf = (applied: Applied) => applied.machines[0]?.id ?? '';
    const first = idOf(await apply(file));
    await requestManagement(system(), 'POST', '/clients/revoke', { id: first });
    const replaced = await apply(file);
    expect(replaced.machines).to.deep.equal([
      { key: 'ci', id: idOf(replaced), name: 'CI', action: 'created' },
    ]);
    expect(idOf(replaced)).to.not.equal(first);
    const { status, body } = await tokenOf(idOf(replaced));
    expect(status).to.equal(200);
    expect((await callTool(link, body.access_token, 'list_regions')).status).to.equal(200);
    expect((await tokenOf(first)).status).to.equal(401);
    expect((await apply(file)).machines[0]).to.include({ id: idOf(replaced), action: 'unchanged' });
  });

  // SQLite syncs each of the writes that prepare the test.
  const count = store === 'redis' || SOAK ? 1000 : 100;
  it(`changes nothing if it is an export of ${count} connectors, and takes less than five seconds`, async () => {
    const many = Array.from({ length: count }, (_, n) => ({
      key: `many-${n}`,
      name: `Connector ${n}`,
      level: 'operations',
      audience: [{ group: 'staff' }, { email: `person-${n}@example.com` }],
    }));
    await apply({ connectors: many });
    await apply(await exported());
    const file = await exported();
    expect(file.connectors.length).to.be.at.least(count);
    const started = performance.now();
    const { connectors, machines, clientRules, affected } = await apply(file, '?prune=all');
    const seconds = (performance.now() - started) / 1000;
    const actions = [...connectors, ...machines, ...clientRules].map(({ action }) => action);
    expect(new Set(actions)).to.deep.equal(new Set(['unchanged']));
    expect(affected).to.deep.equal([]);
    if (SOAK) process.stderr.write(`      ${seconds.toFixed(2)} s\n`);
    expect(seconds).to.be.below(MAX_SECONDS);
    expect(JSON.stringify(await exported())).to.equal(JSON.stringify(file));
  });
});
