import { expect } from 'chai';
import { membersOf } from '../../../src/json-values.ts';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { call } from '../../support/mcp.ts';
import { createConnector, requestManagement } from '../../support/management-api.ts';
import { createDeployment, startDeployment, type System } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import {
  type ChangingUpstream,
  type ListedTool,
  startChangingV2,
} from '../../support/upstream/changing-upstream.ts';
import { toolCall } from '../../support/upstream/scripted-upstream.ts';
import { connectPerson } from '../../support/upstream/system.ts';

const LEVELS = ['analytics', 'operations', 'admin', 'full'] as const;
const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

/** Tools with the level that their annotations need. */
const ANNOTATED: [tool: ListedTool, level: (typeof LEVELS)[number]][] = [
  [{ name: 'read', annotations: { readOnlyHint: true } }, 'analytics'],
  [{ name: 'add', annotations: { readOnlyHint: false, destructiveHint: false } }, 'operations'],
  [{ name: 'destroy', annotations: { readOnlyHint: false, destructiveHint: true } }, 'full'],
  [{ name: 'writes', annotations: { readOnlyHint: false } }, 'full'],
  [{ name: 'undestructive', annotations: { destructiveHint: false } }, 'full'],
  [{ name: 'titled', annotations: { title: 'Read-only' } }, 'full'],
  [{ name: 'bare' }, 'full'],
  // Their names differ only in case, so that both need the level of the stricter one.
  [{ name: 'twin', annotations: { readOnlyHint: true } }, 'full'],
  [{ name: 'Twin' }, 'full'],
  // In the settings.
  [{ name: 'raised', annotations: { readOnlyHint: true } }, 'admin'],
  [{ name: 'lowered', annotations: { destructiveHint: true } }, 'analytics'],
];
const DECLARED = [
  { name: 'raised', level: 'admin' },
  { name: 'lowered', level: 'analytics' },
];
const WORKLOAD = { connector: 'Reports', level: 'analytics' };
const TOOLS = ANNOTATED.map(([tool]) => tool);

describe('Levels from annotations', () => {
  let upstream: ChangingUpstream;
  let system: System;
  let stop: () => Promise<void>;
  const tokens = new Map<string, string>();
  before(async () => {
    upstream = await startChangingV2(TOOLS);
    const place = await createDeployment({
      file: {
        authorization: {
          trustedIssuers: [
            {
              id: 'ci',
              issuer: 'http://localhost:4998',
              workloads: [
                { ...WORKLOAD, id: 'nightly', match: { subject: 'nightly' } },
                {
                  ...WORKLOAD,
                  id: 'ended',
                  match: { subject: 'ended' },
                  expires: '2020-01-01T00:00:00Z',
                },
                { ...WORKLOAD, id: 'moves', match: { subject: 'moves' }, tools: ['titled'] },
              ],
            },
          ],
        },
        resourceServer: {
          upstream: {
            url: upstream.url,
            toolLevels: 'annotations',
            // Also of a tool that is not in the catalog: never this one.
            defaultLevel: 'analytics',
            tools: DECLARED,
          },
        },
      },
    });
    upstream.trustIssuer(place.facts.auth);
    system = await startDeployment(place);
    stop = async () => {
      await system.stop();
      await place.release();
    };
    for (const level of LEVELS) tokens.set(level, (await mint(system, { level })).token);
    await untilListed('analytics', 'read');
  });
  afterEach(restoreClock);
  after(async () => {
    await stop();
    await upstream.close();
  });

  async function listed(level: string): Promise<string[]> {
    const { rpc } = await call(addressOf(system), tokens.get(level), LIST);
    return (rpc?.result?.tools ?? []).map(({ name }) => name);
  }

  async function untilListed(level: string, name: string): Promise<void> {
    await until(`${name} to be listed for ${level}`, async () =>
      (await listed(level)).includes(name),
    );
  }

  async function isCalled(level: string, name: string): Promise<boolean> {
    const arrived = () =>
      upstream.received.filter(({ body }) => membersOf(body)['method'] === 'tools/call').length;
    const before = arrived();
    const { status } = await call(addressOf(system), tokens.get(level), toolCall(name));
    expect(status).to.equal(200);
    return arrived() > before;
  }

  it('UPS-11 each tool is listed and called exactly with the levels that its annotations or the settings allow', async () => {
    for (const [index, level] of LEVELS.entries()) {
      const allowed = ANNOTATED.filter(([, needed]) => LEVELS.indexOf(needed) <= index);
      const names = allowed.map(([{ name }]) => name);
      expect(await listed(level), level).to.have.members(names);
      for (const { name } of TOOLS)
        expect(await isCalled(level, name), `${name} with ${level}`).to.equal(names.includes(name));
    }
  });

  it('UPS-11 a tool that Gatehouse has not read needs the highest level, and one that no list has is refused', async () => {
    const late = { name: 'late', annotations: { readOnlyHint: true } };
    await upstream.setTools([...TOOLS, late], { isSilent: true });
    for (const level of LEVELS)
      expect(await isCalled(level, 'late'), level).to.equal(level === 'full');
    await upstream.setTools(TOOLS, { isSilent: true });
    for (const name of ['unknown', 'READ', 'constructor'])
      for (const level of LEVELS) expect(await isCalled(level, name), name).to.equal(false);
  });

  it('UPS-11 a tool that becomes destructive is refused as soon as a caller was told', async () => {
    const changed = TOOLS.map((tool) =>
      tool.name === 'read' ? { ...tool, annotations: { readOnlyHint: false } } : tool,
    );
    await upstream.setTools(changed, { isSilent: true });
    expect(await isCalled('analytics', 'read')).to.equal(true);
    expect(await listed('analytics')).to.not.include('read');
    expect(await isCalled('analytics', 'read')).to.equal(false);
    // The weaker hint counts only once Gatehouse has read it itself.
    await upstream.setTools(TOOLS, { isSilent: true });
    expect(await listed('analytics')).to.not.include('read');
    advanceClock(10);
    await untilListed('analytics', 'read');
  });

  it('calls cause no requests to the upstream but their own', async () => {
    const before = upstream.discoveries.length;
    for (let n = 0; n < 20; n += 1) expect(await isCalled('analytics', 'read')).to.equal(true);
    expect(upstream.discoveries).to.have.length(before);
  });

  it('the management API lists each tool with its level', async () => {
    const { items } = (await requestManagement(system, 'GET', '/upstreams')) as {
      items: { tools: { name: string; level: string }[]; levels: object[] }[];
    };
    expect(items[0]?.tools.map(({ name, level }) => [name, level])).to.deep.equal(
      ANNOTATED.map(([{ name }, level]) => [name, level]),
    );
    expect(items[0]?.levels).to.deep.equal([
      { level: 'analytics', tools: 2, connectors: 0, tokens: 1 },
      { level: 'operations', tools: 3, connectors: 0, tokens: 1 },
      { level: 'admin', tools: 4, connectors: 0, tokens: 1 },
      { level: 'full', tools: 11, connectors: 0, tokens: 1 },
    ]);
  });

  it('UPS-11 a tool that becomes destructive is refused as soon as the upstream says so', async () => {
    const changed = TOOLS.map((tool) =>
      tool.name === 'read' ? { ...tool, annotations: { readOnlyHint: false } } : tool,
    );
    advanceClock(10);
    await upstream.setTools(changed);
    await until(
      'the tool to be refused',
      async () => !(await listed('analytics')).includes('read'),
    );
    expect(await isCalled('analytics', 'read')).to.equal(false);
    advanceClock(10);
    await upstream.setTools(TOOLS);
    await untilListed('analytics', 'read');
  });

  it('PIN-13 the review says who gains a tool that a lower level opens by a change of its hints', async () => {
    const path = '/upstreams/default/review';
    const changed = TOOLS.map((tool) =>
      tool.name === 'bare' ? { ...tool, annotations: { readOnlyHint: true } } : tool,
    );
    const link = await createConnector(system, { name: 'Reports', level: 'operations' });
    const machine = { connector: link.id, level: 'analytics' };
    for (const [name, tools] of [
      ['Cleaner', ['ba*']],
      ['Mover', ['!bare']],
    ] as const)
      await requestManagement(system, 'POST', '/clients', { ...machine, name, tools });
    advanceClock(600);
    await upstream.setTools(changed);
    await untilListed('analytics', 'bare');
    const { tools } = (await requestManagement(system, 'GET', path)) as {
      tools: { name: string; gains?: { before: string; after: string; through: string[] } }[];
    };
    const { gains } = tools.find(({ name }) => name === 'bare') ?? {};
    expect(gains).to.deep.include({ before: 'full', after: 'analytics' });
    // Of the minted tokens, all but the one with the highest level.
    expect(gains?.through.filter((name) => name === 'Nightly report')).to.have.length(
      LEVELS.length - 1,
    );
    expect(gains?.through).to.include.members(['Reports', 'Cleaner', 'ci:nightly']);
    expect(gains?.through).to.not.include.members(['Mover', 'ci:moves', 'ci:ended']);
    advanceClock(600);
    await upstream.setTools(TOOLS);
    await until('the tool to be hidden', async () => !(await listed('analytics')).includes('bare'));
  });

  it('UPS-19 a tool that the server does not have is no reason to ask for a level, unless the server listed it to the caller', async () => {
    const { link, token } = await connectPerson(system, 'analytics', 'full');
    const refused = await call(link, token, toolCall('unknown'));
    expect([refused.status, refused.headers.has('www-authenticate')]).to.deep.equal([200, false]);
    expect(refused.rpc?.error).to.deep.equal({
      code: -32_602,
      message: 'Unknown tool: the server has no tool with this name',
    });
    expect((await call(link, token, toolCall('bare'))).status).to.equal(403);

    await upstream.setTools([...TOOLS, { name: 'new' }], { isSilent: true });
    await call(link, token, LIST);
    expect((await call(link, token, toolCall('new'))).status).to.equal(403);
    await upstream.setTools(TOOLS, { isSilent: true });
  });
});
