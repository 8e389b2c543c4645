import { expect } from 'chai';
import { freePorts } from '../support/free-ports.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { createDeployment, startDeployment, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { type ChangingUpstream, startChangingV2 } from '../support/upstream/changing-upstream.ts';
import { gatehouse } from './command-line.ts';

const CANARY = 'canary-of-the-credential';
const TOOLS = [
  { name: 'search', title: 'Search <orders>', annotations: { readOnlyHint: true } },
  { name: 'Cancel' },
  { name: 'cancel' },
];

type Listed = { items: { id: string; error?: object; tools: object[] }[] };

describe('The upstreams in the management API, commands and console', () => {
  let upstream: ChangingUpstream;
  let system: System;
  let stop: () => Promise<void>;
  before(async () => {
    upstream = await startChangingV2(TOOLS);
    const [port] = await freePorts(1);
    const orders = {
      id: 'orders',
      name: 'Orders',
      url: upstream.url,
      headers: { 'X-Api-Key': CANARY },
      tools: [
        { name: 'cancel', level: 'admin' },
        { name: 'absent', level: 'full' },
      ],
    };
    const broken = { id: 'broken', url: `http://127.0.0.1:${port}/mcp?key=${CANARY}` };
    const place = await createDeployment({
      file: { resourceServer: { upstreams: [orders, broken] } },
    });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place);
    stop = async () => {
      await system.stop();
      await place.release();
    };
    await until('both upstreams to be tried', async () => {
      const [first, second] = (await list()).items;
      return first?.tools.length === 3 && second?.error !== undefined;
    });
    await createConnector(system, { upstream: 'broken', level: 'full' });
    const revoked = await createConnector(system, { upstream: 'broken', level: 'full' });
    await requestManagement(system, 'DELETE', `/connectors/${revoked.id}`);
  });
  after(async () => {
    await stop();
    await upstream.close();
  });

  const list = async () => (await requestManagement(system, 'GET', '/upstreams')) as Listed;
  const run = (...args: string[]) =>
    gatehouse(args, {
      GATEHOUSE_MANAGEMENT_URL: system.management,
      GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
    });

  const create = (command: string, id: string) =>
    run(...command.split(' '), '--name', 'Named', '--level', 'admin', '--upstream', id);

  it('the API lists tools, levels, faults and who reaches what, and no credential', async () => {
    const all = await list();
    const [orders, broken] = all.items;
    expect(orders).to.deep.include({
      id: 'orders',
      name: 'Orders',
      url: upstream.url,
      toolLevels: 'declared',
      defaultLevel: 'full',
      revision: '2026-07-28',
      missingTools: ['absent'],
      tools: [
        {
          name: 'search',
          title: 'Search <orders>',
          level: 'full',
          isDeclared: false,
          readOnlyHint: true,
        },
        // Resembles a tool in the settings.
        { name: 'Cancel', isDeclared: false },
        { name: 'cancel', level: 'admin', isDeclared: true },
      ],
    });
    expect(broken).to.deep.include({
      tools: [],
      missingTools: [],
      error: { fault: 'unreachable', message: 'does not listen (connection refused)' },
      levels: [
        { level: 'analytics', tools: 0, connectors: 0, tokens: 0 },
        { level: 'operations', tools: 0, connectors: 0, tokens: 0 },
        { level: 'admin', tools: 0, connectors: 0, tokens: 0 },
        { level: 'full', tools: 0, connectors: 1, tokens: 0 },
      ],
    });
    expect(broken).to.not.have.property('seenAt');
    expect(JSON.stringify(all)).to.not.include(CANARY);
    expect(await requestManagement(system, 'GET', '/upstreams/orders')).to.deep.equal(orders);
  });

  it('an unknown upstream is not found, and the error lists those that exist', async () => {
    const { code, stderr } = await run('upstream', 'show', 'nowhere');
    expect(code).to.equal(1);
    expect(stderr).to.include('one of orders, broken');
  });

  it('the command line lists the upstreams, and shows the level of each tool', async () => {
    const listed = await run('upstream', 'list');
    expect(listed.stdout).to.match(/^orders +Orders +3 +0 .* answers$/m);
    expect(listed.stdout).to.match(/^broken +127.* +0 +1 +never +does not listen/m);
    const { stdout } = await run('upstream', 'show', 'orders');
    expect(stdout).to.match(/^search +full +default +Search <orders>$/m);
    expect(stdout).to.match(/^cancel +admin +settings$/m);
    expect(stdout).to.match(/^Cancel +refused: its name is too similar to another/m);
    expect(stdout).to.match(/missing tools +absent/);
    const json = await run('upstream', 'list', '--json');
    expect(JSON.parse(json.stdout)).to.deep.equal(await list());
    expect(listed.stdout + stdout + json.stdout).to.not.include(CANARY);
  });

  it('a connector and a token are created for the upstream that a command names', async () => {
    const created = await create('connector create', 'broken');
    expect(created.stdout).to.match(/upstream +broken/);
    const minted = await create('token mint --json', 'broken');
    expect(JSON.parse(minted.stdout)).to.include({ upstream: 'broken' });
    const refused = await create('connector create', 'nowhere');
    expect([refused.code, refused.stderr]).to.deep.equal([
      1,
      'gatehouse: there is no upstream with this id or name; expected one of orders, broken\n',
    ]);
    for (const unusable of ['', 'a name of more than thirty-two characters', 'orders\u0000'])
      expect((await create('token mint', unusable)).stderr).to.include('one of orders, broken');
    await createConnector(system, { upstream: 'orders', level: 'analytics' });
    const connectors = await run('connector', 'list');
    expect(connectors.stdout).to.include('UPSTREAM');
    expect(connectors.stdout).to.include(' Orders (orders) ');
  });

  it('commands accept the unique name of an upstream', async () => {
    const created = await create('connector create --json', 'Orders');
    expect(JSON.parse(created.stdout)).to.include({ upstream: 'orders' });
    const minted = await create('token mint --json', ' Orders ');
    expect(JSON.parse(minted.stdout)).to.include({ upstream: 'orders' });
    const shown = await run('upstream', 'show', 'Orders', '--json');
    expect(JSON.parse(shown.stdout)).to.include({ id: 'orders' });
  });

  it('the completion script offers the ids of the upstreams', async () => {
    const { stdout } = await run('completion', 'bash');
    for (const words of ['connector create --upstream', 'token mint --upstream'])
      expect(stdout).to.include(`'${words}') candidates='orders broken' ;;`);
    expect(stdout).to.match(/'upstream show'\) candidates='orders broken /);
    expect(stdout).to.include("'start --upstream') candidates='' ;;");
  });

  it('the console shows each server with its tools, and its forms offer the servers', async () => {
    const browser = openBrowser([...system.origins, system.management]);
    const at = (path: string) => `${system.management}/console${path}`;
    const signIn = requirePage(await browser.visit(at('/servers')));
    const { html, status } = requirePage(await browser.submit(signIn, { person: 'ada' }));
    expect(status).to.equal(200);
    expect(html)
      .to.include('Orders')
      .and.include('Search &lt;orders&gt;')
      .and.include('Can’t be reached')
      .and.include('absent')
      .and.not.include(CANARY);
    const connectors = requirePage(await browser.visit(at('/connectors/new')));
    const created = requirePage(
      await browser.submit(connectors, {
        name: 'From the form',
        level: 'admin',
        upstream: 'broken',
      }),
    );
    expect(created.html).to.include('From the form').and.include('>broken<');
    const id = created.url.pathname.slice(-22);
    const same = requirePage(await browser.visit(at(`/connectors/new?from=${id}`)));
    expect(same.html).to.include('<option value="broken" selected>');
    const tokens = requirePage(await browser.visit(at('/tokens/new')));
    const minted = requirePage(
      await browser.submit(tokens, { name: 'Minted', level: 'admin', upstream: 'broken' }),
    );
    expect(minted.html).to.include('>broken<');
  });
});
