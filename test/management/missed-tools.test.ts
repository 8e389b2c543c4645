// Held tools that somebody misses, connectors that open no tool, and tools that make apps drop a list: as doctor, the API, the command and the console say it.
import { expect } from 'chai';
import { managementClient } from '../../src/management/api/client.ts';
import { loadSettings } from '../../src/settings/load.ts';
import type { Upstream as Settings } from '../../src/settings/upstreams.ts';
import { examineSettings } from '../doctor/fault.ts';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { createDeployment, startDeployment, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  type ListingUpstream,
  startListingUpstream,
  tool,
} from '../support/upstream/listing-upstream.ts';
import { gatehouse } from './command-line.ts';

const NO_OBJECT = { inputSchema: { type: 'string' } };
const changed = (name: string) => tool(name, { description: 'Another text' });

type Shown = { tools: { name: string; held?: string; isMissed?: true }[] };

describe('Tools and connectors that need an operator', () => {
  let upstream: ListingUpstream;
  let system: System;
  let stop: () => Promise<void>;
  before(async () => {
    upstream = await startListingUpstream([tool('used'), tool('idle'), tool('odd', NO_OBJECT)]);
    const orders = {
      id: 'orders',
      url: upstream.url,
      toolChanges: 'hold',
      defaultLevel: 'analytics',
    };
    const place = await createDeployment({ file: { resourceServer: { upstreams: [orders] } } });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place);
    stop = async () => {
      restoreClock();
      await system.stop();
      await place.release();
    };
    await until('the first reading', async () => (await shown()).tools.length === 3);
    const { token } = await mint(system, { level: 'analytics' });
    await callTool(addressOf(system), token, 'used');
    await createConnector(system, { name: 'Empty', level: 'analytics', tools: ['none'] });
    upstream.list([changed('used'), changed('idle'), tool('odd', NO_OBJECT)]);
    advanceClock(301);
    await until('the changed tools', async () =>
      (await shown()).tools.some(({ held }) => held !== undefined),
    );
  });
  after(async () => {
    await stop();
    await upstream.close();
  });

  const shown = async () => (await requestManagement(system, 'GET', '/upstreams/orders')) as Shown;

  it('the API and the command say that a held tool was called in the last week, and not after it', async () => {
    const states = async () =>
      (await shown()).tools.map(({ name, held, isMissed }) => [name, held, isMissed]);
    const expected = [
      ['used', 'changed', true],
      ['idle', 'changed', undefined],
      ['odd', undefined, undefined],
    ];
    await until('the use to be stored', async () => (await shown()).tools[0]?.isMissed);
    expect(await states()).to.deep.equal(expected);
    const { stdout } = await gatehouse(['upstream', 'show', 'orders'], {
      GATEHOUSE_MANAGEMENT_URL: system.management,
      GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
    });
    expect(stdout).to.match(/^used +.*held: changed, was in use/m);
    advanceClock(8 * 86_400);
    expect((await shown()).tools.some(({ isMissed }) => isMissed)).to.equal(false);
    restoreClock();
  });

  it('doctor names connectors that open no tool, held tools, those that were in use, and those that make apps drop all', async () => {
    const settings = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
    const { management: url, managementKey: key } = system;
    const findings = await examineSettings(
      { ...settings, upstreams: [{ id: 'orders', url: upstream.url } as Settings] },
      ['upstream'],
      { openClient: () => managementClient({ url, key }) },
    );
    const found = findings.filter(({ about }) => about === 'orders');
    expect(found.map(({ outcome }) => outcome)).to.deep.equal(Array(4).fill('warning'));
    const said = found.map((finding) => ('what' in finding ? finding.what : ''));
    expect(said).to.deep.equal([
      '1 connector opens no tool of the MCP server: "Empty"',
      '1 tool of the MCP server that was called in the last week waits for an operator: used',
      '1 tool of the MCP server waits for an operator: idle',
      'the input schema of 1 tool of the MCP server is not of an object: odd',
    ]);
  });

  it('the overview and the page of servers say it too', async () => {
    const browser = openBrowser([...system.origins, system.management]);
    const signIn = requirePage(await browser.visit(`${system.management}/console/overview`));
    const overview = requirePage(await browser.submit(signIn, { person: 'ada' }));
    expect(overview.html).to.include('1 hidden tool was called in the last week');
    expect(overview.html).to.include('1 connector allows no tool');
    const servers = requirePage(await browser.visit(`${system.management}/console/servers`));
    expect(servers.html).to.include('Somebody called it in the last week.');
  });
});
