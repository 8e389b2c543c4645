import { expect } from 'chai';
import { exportJWK, generateKeyPair } from 'jose';
import type { Applied } from '../../src/management/resources/apply.ts';
import type { Reload } from '../../src/management/resources/settings.ts';
import { mint } from '../links/minted-tokens/minting.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { connect } from '../support/connection.ts';
import { type Connector, createConnector, requestManagement } from '../support/management-api.ts';
import { changeSettings } from '../support/settings-file.ts';
import { createDeployment, type LogLine, startDeployment, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { connectV2 } from '../support/upstream/sdk-clients.ts';
import { type ChangingUpstream, startChangingV2 } from '../support/upstream/changing-upstream.ts';
import { gatehouse } from './command-line.ts';

const TOOLS = [{ name: 'search_orders' }, { name: 'delete_order' }, { name: 'Delete_Order' }];

describe('Explanations of tools', () => {
  let upstream: ChangingUpstream;
  const log: LogLine[] = [];
  let system: System;
  let stop: () => Promise<void>;
  let reports: Connector;
  let operations: Connector;
  let grace: string;
  before(async () => {
    upstream = await startChangingV2(TOOLS);
    const orders = {
      id: 'orders',
      url: upstream.url,
      tools: [{ name: 'delete_order', level: 'operations' }],
      defaultLevel: 'analytics',
    };
    const entitlements = [
      { match: { subject: 'ada' }, level: 'full' },
      { match: { group: 'staff' }, level: 'operations', tools: ['search_*'] },
    ];
    const authorization = {
      trustedIssuers: [
        {
          id: 'cluster',
          issuer: 'http://localhost:4998',
          workloads: [
            {
              id: 'nightly',
              match: { subject: 'nightly' },
              connector: 'Dropping',
              level: 'full',
              tools: ['purge_*', 'search_*'],
            },
          ],
        },
      ],
    };
    const place = await createDeployment({
      file: { entitlements, authorization, resourceServer: { upstreams: [orders] } },
    });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place, {}, { log });
    stop = async () => {
      await system.stop();
      await place.release();
    };
    await until('the tools to be read', async () => {
      const { tools } = (await ask('/upstreams/orders')) as { tools: object[] };
      return tools.length === TOOLS.length;
    });
    reports = await createConnector(system, { name: 'Reports', level: 'analytics' });
    operations = await createConnector(system, {
      name: 'Operations',
      level: 'full',
      tools: ['*', '!search_*'],
    });
    await connect(system, operations, { person: 'grace', level: 'operations' });
    const { items } = (await ask('/accounts')) as { items: { id: string; name: string }[] };
    grace = items.find(({ name }) => name === 'Grace Hopper')?.id ?? '';
  });
  after(async () => {
    await stop();
    await upstream.close();
  });

  const ask = (path: string) => requestManagement(system, 'GET', path);
  const run = (...args: string[]) =>
    gatehouse(args, {
      GATEHOUSE_MANAGEMENT_URL: system.management,
      GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
    });
  const hrefs = (html: string) =>
    Array.from(html.matchAll(/href="([^"]*)"/g), ([, href = '']) => href.replaceAll('&amp;', '&'));
  const query = (members: Record<string, string>) => new URLSearchParams(members);

  it('the API says which rules matched, which level and tools follow, and what forbids the others', async () => {
    const explained = await ask(`/access?${query({ account: grace, connector: operations.id })}`);
    const rule = { rule: 'entitlements[1]', level: 'operations', tools: ['search_*'] };
    expect(explained).to.deep.equal({
      account: grace,
      connector: operations.id,
      level: 'operations',
      rules: [rule],
      tools: [
        { name: 'search_orders', level: 'analytics', allowed: false, forbiddenBy: 'connector' },
        { name: 'delete_order', level: 'operations', allowed: false, forbiddenBy: 'rule' },
        { name: 'Delete_Order', allowed: false, forbiddenBy: 'name' },
      ],
    });
    const asked = { account: grace, connector: reports.id };
    const of = async (tool: string) =>
      ((await ask(`/access?${query({ ...asked, tool })}`)) as { tools: object[] }).tools;
    expect(await of('search_orders')).to.deep.equal([
      { name: 'search_orders', level: 'analytics', allowed: true },
    ]);
    expect(await of('delete_order')).to.deep.equal([
      { name: 'delete_order', level: 'operations', allowed: false, forbiddenBy: 'level' },
    ]);
    expect(await of('drop_order')).to.deep.equal([
      { name: 'drop_order', allowed: false, forbiddenBy: 'unknown' },
    ]);
  });

  it('the command explains a tool for an account, and for anybody with these groups', async () => {
    const about = ['--connector', 'Operations', '--tool', 'search_orders'];
    const known = await run('access', 'explain', '--account', grace, ...about);
    expect(known.stdout).to.match(/search_orders +analytics +no: the connector does not open it/);
    const anybody = ['--email', 'new@example.com', '--groups', 'staff'];
    const { stdout } = await run('access', 'explain', ...anybody, ...about, '--json');
    expect(JSON.parse(stdout)).to.deep.include({
      level: 'operations',
      tools: [
        { name: 'search_orders', level: 'analytics', allowed: false, forbiddenBy: 'connector' },
      ],
    });
    expect(JSON.parse(stdout)).to.not.have.property('account');
  });

  it('the console shows what a person may use through a connector, and who can use a tool, with links between', async () => {
    const browser = openBrowser([...system.origins, system.management]);
    const at = (path: string) => new URL(path, `${system.management}/console/`).href;
    const signIn = requirePage(await browser.visit(at(`accounts/${grace}`)));
    const person = requirePage(await browser.submit(signIn, { person: 'ada' }));
    const rows = (html: string) =>
      Array.from(html.matchAll(/<tr class="row"[^>]*>([^]*?)<\/tr>/g), ([, row = '']) =>
        row
          .replaceAll(/<span class="cell-head">[^<]*<\/span>/g, '')
          .replaceAll(/<[^>]*>/g, ' ')
          .replaceAll(/\s+/g, ' ')
          .trim(),
      );
    const toTools = hrefs(person.html).find((href) => href.endsWith(`connector=${operations.id}`));
    const explained = requirePage(await browser.visit(at(toTools ?? 'missing')));
    expect(explained.html).to.include('Grace Hopper').and.include('Operations');
    expect(explained.html).to.match(/>Result<[^]*>Access needed</);
    expect(explained.html).to.match(/Tools last read: <time /);
    expect(rows(explained.html)).to.include.members([
      'search_orders The connector doesn’t allow it Level analytics',
      'delete_order No rule with enough access allows it Level operations',
      'Delete_Order Excluded, because its name is too similar to another tool’s',
      'entitlements[1] group:staff Level operations search_*',
    ]);
    const servers = requirePage(await browser.visit(at('servers')));
    const toReach = hrefs(servers.html).find((href) => href.endsWith('tool=delete_order'));
    const reach = requirePage(await browser.visit(at(toReach ?? 'missing')));
    expect(rows(reach.html)).to.include(
      'Operations Level full 1 person connected, with any access',
    );
    expect(hrefs(reach.html))
      .to.include(`/console/connectors/${operations.id}`)
      .and.include(`/console/grants?connector=${operations.id}`);
    const unknown = requirePage(await browser.visit(at('servers/orders/tools?tool=drop')));
    expect(unknown.status).to.equal(404);
  });

  it('the API and the command list through what a tool can be reached, and the people connected there', async () => {
    const token = await mint(system, { level: 'full', tools: ['delete_*'] });
    await mint(system, { level: 'full', tools: ['search_*'] });
    const machine = { name: 'CI', connector: operations.id, level: 'operations' };
    const { id } = (await requestManagement(system, 'POST', '/clients', machine)) as {
      id: string;
    };
    const narrow = { ...machine, name: 'Narrow', tools: ['search_*'] };
    await requestManagement(system, 'POST', '/clients', narrow);
    expect(await ask('/access/who?tool=delete_order')).to.deep.equal({
      tool: 'delete_order',
      upstreams: [{ upstream: 'orders', level: 'operations' }],
      rules: [
        {
          rule: 'entitlements[0]',
          kind: 'subject',
          value: 'ada',
          level: 'full',
          upstream: 'orders',
        },
      ],
      connectors: [
        { id: operations.id, name: 'Operations', level: 'full', upstream: 'orders', people: 1 },
      ],
      tokens: [{ id: token.id, name: token.name, level: 'full', upstream: 'orders' }],
      machines: [{ id, name: 'CI', level: 'operations', connector: operations.id }],
    });
    const { stdout } = await run('access', 'who', '--tool', 'delete_order');
    expect(stdout).to.include(`Operations (${operations.id}): full, 1 people connected`);
    const { code, stderr } = await run('access', 'who', '--tool', 'drop_order');
    expect([code, stderr]).to.deep.include(1);
    expect(stderr).to.include('no MCP server is known to have a tool with this name');
  });

  it('a machine is listed with the level that it has now, which is at most that of its connector', async () => {
    const { id: connector } = await createConnector(system, { name: 'Lowered', level: 'full' });
    const machine = { name: 'Capped', connector, level: 'full' };
    await requestManagement(system, 'POST', '/clients', machine);
    const levelOf = async (tool: string) => {
      const { machines } = (await ask(`/access/who?tool=${tool}`)) as {
        machines: { name: string; level: string }[];
      };
      return machines.find(({ name }) => name === 'Capped')?.level;
    };
    expect(await levelOf('delete_order')).to.equal('full');
    const lower = async (level: string) =>
      requestManagement(system, 'PATCH', `/connectors/${connector}`, { level });
    await lower('operations');
    expect(await levelOf('delete_order')).to.equal('operations');
    await lower('analytics');
    expect(await levelOf('delete_order')).to.equal(undefined);
    expect(await levelOf('search_orders')).to.equal('analytics');
  });

  it('a change of the tools of a connector names who loses which tools, and says what it opens', async () => {
    await connect(system, reports, { person: 'grace', level: 'analytics' });
    const change = { tools: ['*_order', '!drop*'] };
    const path = `/connectors/${reports.id}`;
    const preview = await requestManagement(system, 'PATCH', `${path}?dryRun=true`, change);
    expect(preview).to.nested.include({
      'affected[0].account.name': 'Grace Hopper',
      'affected[0].lostTools[0]': 'search_orders',
    });
    expect(preview).to.deep.include({
      opened: { tools: [], unmatched: ['!drop*'], isEverything: false, includesLater: true },
    });
    const { stdout } = await run(
      'connector',
      'update',
      'Reports',
      '--tools',
      '*_order',
      '--dry-run',
    );
    expect(stdout).to.match(/Grace Hopper .* loses search_orders/);
    const changed = await run('connector', 'update', 'Reports', '--tools', 'search_orders');
    expect(changed.stdout).to.match(/opens +search_orders; everything of its level/);
    const items = (await ask('/audit?event=connector_changed')) as { items: object[] };
    expect(items.items[0]).to.nested.include({ 'arguments.after.tools[0]': 'search_orders' });
    const back = await run('connector', 'update', 'Reports', '--tools', 'everything', '--json');
    expect(JSON.parse(back.stdout)).to.not.have.any.keys('tools', 'opened');
  });

  it('the console says what the patterns of a connector would open before it is saved, and warns of those that match nothing', async () => {
    const { id } = await createConnector(system, { name: 'Patterns', level: 'full' });
    const browser = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await browser.visit(`${system.management}/console/overview`));
    await browser.submit(signIn, { person: 'ada' });
    const address = `${system.management}/console/connectors/${id}/edit`;
    const opens = async (tools: string) => {
      const form = requirePage(await browser.visit(address));
      const { html } = requirePage(await browser.submit(form, { tools }));
      const [, section = ''] = /aria-labelledby="opens">(.*?)<\/section>/s.exec(html) ?? [];
      return section.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    };
    const some = await opens('search_*\r\ndrop_*');
    expect(some)
      .to.include('search_orders')
      .and.include('matching tools that the server gets later')
      .and.match(/Lines that match no tool drop_\*/)
      .and.not.include('delete_order');
    expect(await opens('*')).to.include('Everything of the access level');
    expect(await opens('drop_order')).to.include('No tool of the server');
    expect(await ask(`/connectors/${id}`)).to.not.have.any.keys('tools', 'opened');
    await requestManagement(system, 'DELETE', `/connectors/${id}`);
  });

  it('the form that creates a connector says what its patterns would open before anything is created, and keeps what was entered', async () => {
    const browser = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await browser.visit(`${system.management}/console/overview`));
    await browser.submit(signIn, { person: 'ada' });
    const before = await ask('/connectors');
    const preview = async (tools: string) => {
      const form = requirePage(await browser.visit(`${system.management}/console/connectors/new`));
      const entered = { name: 'Previewed', level: 'full', tools, preview: 'yes' };
      const { html } = requirePage(await browser.submit(form, entered));
      const [, section = ''] = /aria-labelledby="opens">(.*?)<\/section>/s.exec(html) ?? [];
      expect(html).to.include('value="Previewed"');
      return section.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    };
    expect(await preview('search_*\r\ndrop_*'))
      .to.include('search_orders')
      .and.match(/Lines that match no tool drop_\*/)
      .and.not.include('delete_order');
    expect(await preview('*')).to.include('Everything of the access level');
    expect(await preview('')).to.include('Everything of the access level');
    expect(await preview('drop_order')).to.include('No tool of the server');
    expect(await ask('/connectors')).to.deep.equal(before);
  });

  it('APL-05 a file names who loses which tools before it is applied and when it is, also of machines', async () => {
    const { publicKey } = await generateKeyPair('ES256', { extractable: true });
    const connector = { key: 'orders', name: 'Orders', level: 'operations' };
    const machine = {
      key: 'sync',
      name: 'Sync',
      connector: 'orders',
      level: 'operations',
      jwks: { keys: [await exportJWK(publicKey)] },
      expiresAt: new Date((Math.floor(Date.now() / 1000) + 86_400) * 1000).toISOString(),
    };
    const apply = async (file: object, query = '') =>
      (await requestManagement(system, 'POST', `/apply${query}`, file)) as Applied;
    const [made] = (await apply({ connectors: [connector], machines: [machine] })).connectors;
    const { link } = (await ask(`/connectors/${made?.id}`)) as Connector;
    const { accessToken } = await connect(system, { link }, { person: 'ada', level: 'operations' });
    const listTools = async () => {
      const app = await connectV2('auto')(link, accessToken);
      const names = await app.listTools();
      await app.close();
      return names;
    };
    const losses = async (file: object) => {
      const dry = await apply(file, '?dryRun=true');
      const listed = await listTools();
      const done = await apply(file);
      expect(done.affected).to.have.deep.members(dry.affected);
      const left = await listTools();
      const ofAda = dry.affected.find(({ account }) => account.name === 'Ada Lovelace');
      expect(listed.filter((name) => !left.includes(name))).to.deep.equal(ofAda?.lostTools ?? []);
      return Object.fromEntries(
        dry.affected.map(({ account, lostTools }) => [account.name, lostTools]),
      );
    };
    const narrowed = { ...connector, tools: ['search_*'] };
    const tools = ['delete_*'];
    const file = { connectors: [narrowed], machines: [{ ...machine, tools }] };
    expect(await losses(file)).to.deep.equal({
      'Ada Lovelace': ['delete_order'],
      Sync: ['search_orders', 'delete_order'],
    });
    await apply({ connectors: [connector], machines: [machine] });
    expect(await losses({ machines: [{ ...machine, tools }] })).to.deep.equal({
      Sync: ['search_orders'],
    });
  });

  it('a dry run of a reload names who would lose which tools, by an entitlement or by their levels', async () => {
    const preview = async (changes: Record<string, unknown>) => {
      const restore = changeSettings(system, changes);
      const { affected } = (await requestManagement(system, 'POST', '/settings/reload', {
        dryRun: true,
      })) as Reload;
      restore();
      return affected?.map(({ account, lostTools }) => [account.name, lostTools]);
    };
    await connect(system, reports, { person: 'grace', level: 'analytics' });
    const entitlements = [
      { match: { subject: 'ada' }, level: 'full' },
      { match: { group: 'staff' }, level: 'operations', tools: ['delete_*'] },
    ];
    const loss = (await preview({ entitlements }))?.filter(([name]) => name === 'Grace Hopper');
    expect(loss).to.deep.include(['Grace Hopper', ['search_orders']]);
    const orders = {
      id: 'orders',
      url: upstream.url,
      tools: [{ name: 'search_orders', level: 'operations' }],
      defaultLevel: 'analytics',
    };
    const levels = await preview({ resourceServer: { upstreams: [orders] } });
    expect(levels).to.deep.include(['Grace Hopper', ['search_orders']]);
    expect(await preview({})).to.deep.equal([]);
  });

  it('a dry run of a reload names minted tokens that would stop or lose tools, and the command and the page do', async () => {
    const made = await mint(system, { name: 'Nightly', level: 'analytics', upstream: 'orders' });
    const orders = { id: 'orders', url: upstream.url, defaultLevel: 'analytics' };
    const preview = async (changes: object) => {
      const upstreams = [{ ...orders, ...changes }];
      const restore = changeSettings(system, { resourceServer: { upstreams } });
      const { stdout } = await run('reload', '--dry-run');
      const { affectedTokens } = (await requestManagement(system, 'POST', '/settings/reload', {
        dryRun: true,
      })) as Reload;
      restore();
      const [, text = ''] = stdout.split('Minted tokens that would stop or lose tools:\n');
      return { found: affectedTokens?.find(({ name }) => name === 'Nightly'), text };
    };
    const tools = [{ name: 'search_orders', level: 'operations' }];
    const fewer = await preview({ tools });
    expect(fewer.found)
      .to.include({ id: made.id })
      .and.have.deep.property('lostTools', ['search_orders']);
    expect(fewer.text).to.match(/Nightly +loses search_orders/);
    expect((await preview({ paused: true })).found).to.include({ reason: 'paused' });
    const gone = await preview({ id: 'other' });
    expect(gone.found).to.include({ reason: 'unconfigured' });
    expect(gone.text).to.match(/Nightly +stops \(unconfigured\)/);
    expect(
      (await preview({ tools: [{ name: 'delete_order', level: 'operations' }] })).found,
    ).to.equal(undefined);
  });

  it('a connector that opens no tool is named by the API, the command, the page of servers and the overview', async () => {
    const { id } = await createConnector(system, {
      name: 'Empty',
      level: 'full',
      tools: ['nothing_*'],
    });
    expect(await ask('/upstreams/orders')).to.deep.include({
      emptyConnectors: [{ id, name: 'Empty' }],
    });
    expect((await run('upstream', 'show', 'orders')).stdout).to.match(/empty connectors +Empty/i);
    const browser = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await browser.visit(`${system.management}/console/overview`));
    const overview = requirePage(await browser.submit(signIn, { person: 'ada' }));
    expect(overview.html).to.include('1 connector allows no tool');
    const servers = requirePage(await browser.visit(`${system.management}/console/servers`));
    expect(servers.html).to.include('Connectors that allow no tool');
    await requestManagement(system, 'DELETE', `/connectors/${id}`);
  });

  it('the log names lists with patterns that match no tool once the tools have changed', async () => {
    const { id } = await createConnector(system, {
      name: 'Dropping',
      level: 'full',
      tools: ['drop_*', 'search_*'],
    });
    const machine = (await requestManagement(system, 'POST', '/clients', {
      name: 'Cleaner',
      connector: id,
      level: 'full',
      tools: ['clean_*', '!search_*'],
    })) as { id: string };
    expect(machine).to.deep.include({
      opened: { tools: [], unmatched: ['clean_*'], isEverything: false, includesLater: true },
    });
    await upstream.setTools([{ name: 'search_orders' }, { name: 'delete_order' }]);
    await until('the warning', () => log.some(({ reason }) => String(reason).includes(id)));
    const warning = log.find(({ reason }) => String(reason).includes(id));
    expect(warning).to.include({ msg: 'patterns of tools are without effect' });
    expect(warning?.['reason'])
      .to.include(`connector ${id}: drop_*`)
      .and.include(`machine ${machine.id}: clean_*`)
      .and.include('workload cluster:nightly: purge_*')
      .and.not.include('search_*');
  });
});
