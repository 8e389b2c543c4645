import { expect } from 'chai';
import { z } from 'zod';
import { textOf } from '../../support/account-page.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { connect, openConsent } from '../../support/connection.ts';
import {
  type AuditItem,
  createConnector,
  readAllAudit,
  requestManagement,
} from '../../support/management-api.ts';
import { call, callTool } from '../../support/mcp.ts';
import { startSystem, type System, type SystemOptions } from '../../support/system.ts';
import { toolCall } from '../../support/upstream/scripted-upstream.ts';
import { startFastUpstream } from '../../support/upstream/fast-upstream.ts';
import type { Upstream } from '../../support/upstream/upstream-server.ts';
import { until } from '../../support/until.ts';

const TOOLS = [
  { name: 'search', level: 'read' },
  { name: 'answer', level: 'write' },
];
const USE = 'Each use of a tool is recorded for administrators.';
const WITH_ARGUMENTS = 'What the app sends to the tools is recorded as well.';

/** The system is behind one proxy. */
function behindProxy(options: Pick<SystemOptions, 'file'>) {
  let system: System;
  let upstream: Upstream;
  before(async () => {
    upstream = await startFastUpstream();
    const resourceServer = { upstream: { url: upstream.url, tools: TOOLS } };
    const entitlements = [{ match: { subject: 'ada' }, level: 'write' }];
    const file = { proxies: 1, entitlements, ...options.file, resourceServer };
    system = await startSystem({ file });
    upstream.trustIssuer(system.auth);
  });
  after(async () => {
    await system?.stop();
    await upstream?.close();
  });
  return () => system;
}

async function connected(system: System, level: string) {
  const { link, id } = await createConnector(system, { name: 'Desk', level });
  const { accessToken: token } = await connect(system, { link }, { level });
  return { link, token, id };
}

function untilRecorded(
  system: System,
  connector: string | undefined,
  count: number,
): Promise<AuditItem[]> {
  return until(`${count} calls to be recorded`, async () => {
    const items = (await readAllAudit(system)).filter(
      (item) => item.event === 'call' && item.connector === connector && item.outcome !== 'started',
    );
    return items.length >= count && items;
  });
}

async function consentText(system: System, level: string): Promise<string> {
  const { link } = await createConnector(system, { name: 'Desk', level });
  return textOf((await openConsent(system, { link })).page);
}

describe('Calls on record with shortened addresses, and with the arguments of a level that is not recorded', () => {
  const system = behindProxy({
    file: {
      levels: [{ id: 'read' }, { id: 'write', arguments: 'full' }],
      audit: { addresses: 'shortened' },
    },
  });

  it('addresses are those of networks, /24 and /48', async () => {
    const { link, token, id } = await connected(system(), 'read');
    for (const address of ['203.0.113.77', '2001:db8:1:2:3:4:5:6'])
      await call(link, token, toolCall('search'), { headers: { 'x-forwarded-for': address } });
    const items = await untilRecorded(system(), id, 2);
    expect(items.map(({ address }) => address)).to.deep.equal([
      '203.0.113.0/24',
      '2001:db8:1::/48',
    ]);
  });

  it('the log has the arguments of the level with arguments: full, and of no other', async () => {
    const writing = await connected(system(), 'write');
    await callTool(writing.link, writing.token, 'answer', { ticket: 7 });
    const [item] = await untilRecorded(system(), writing.id, 1);
    expect(item).to.include({ outcome: 'answered', argumentsJson: '{"ticket":7}' });
    const reading = await connected(system(), 'read');
    await callTool(reading.link, reading.token, 'search', { ticket: 7 });
    expect((await untilRecorded(system(), reading.id, 1))[0]).to.not.have.property('argumentsJson');
  });

  it('the consent page says that each use is recorded, and at the level with arguments with what', async () => {
    const reading = await consentText(system(), 'read');
    expect(reading).to.include(USE).and.not.include(WITH_ARGUMENTS);
    const writing = await consentText(system(), 'write');
    expect(writing).to.include(USE);
    expect(writing.split(WITH_ARGUMENTS)).to.have.lengthOf(2);
  });

  it('LOG-14 of a flood of wrong tokens from one address, the log has one item', async () => {
    const { link, token, id } = await connected(system(), 'read');
    const headers = { 'x-forwarded-for': '198.51.100.9' };
    for (let n = 0; n < 20; n += 1) await call(link, `wrong-${n}`, toolCall('search'), { headers });
    await call(link, token, toolCall('search'), { headers });
    const items = await untilRecorded(system(), id, 2);
    expect(items.map(({ outcome, reason }) => [outcome, reason])).to.deep.equal([
      ['refused', 'invalid_token'],
      ['answered', undefined],
    ]);
    expect(items[0]).to.include({ address: '198.51.100.0/24' }).and.not.have.property('account');
  });
});

describe('Calls on record of recorded levels alone, and without addresses', () => {
  const system = behindProxy({
    file: {
      levels: [
        { id: 'read', arguments: 'full' },
        { id: 'write', recorded: true },
      ],
      audit: { calls: 'recorded', addresses: 'none' },
    },
  });

  it('calls of a recorded level are in the log without an address, and others and wrong tokens are not', async () => {
    const reading = await connected(system(), 'read');
    await callTool(reading.link, reading.token, 'search');
    await callTool(reading.link, 'wrong', 'search');
    const writing = await connected(system(), 'write');
    await callTool(writing.link, writing.token, 'answer');
    const [item] = await untilRecorded(system(), writing.id, 1);
    expect(item).to.include({ outcome: 'answered', argumentsJson: '{}' });
    expect(item).to.not.have.property('address');
    const calls = (await readAllAudit(system())).filter(({ event }) => event === 'call');
    expect(calls.map(({ connector }) => connector)).to.not.include(reading.id);
  });

  it('the consent page says nothing about records at a level whose calls are not in the log', async () => {
    const reading = await consentText(system(), 'read');
    expect(reading).to.not.include(USE).and.not.include(WITH_ARGUMENTS);
    const writing = await consentText(system(), 'write');
    expect(writing)
      .to.include('Each use of this access is recorded with what the app sends')
      .and.not.include(USE);
  });
});

describe('Wrong tokens from many addresses of one site', () => {
  const limits = { wrongTokens: { perAddress: '9999999/1h', inAll: '9999999/1h' } };
  const system = behindProxy({ file: { levels: [{ id: 'read' }, { id: 'write' }], limits } });
  afterEach(restoreClock);

  /** Of a /48 in a day. */
  const MAX_ITEMS = 1600;

  /** Each request comes from a /64 of its own. */
  async function flood(link: string, count: number, from: number): Promise<void> {
    let sent = 0;
    const client = async () => {
      while (sent < count) {
        sent += 1;
        const address = `2001:db8:7:${(from + sent).toString(16)}::1`;
        await call(link, 'wrong', toolCall('search'), { headers: { 'x-forwarded-for': address } });
      }
    };
    await Promise.all(Array.from({ length: 16 }, client));
  }

  const refusals = z.object({ items: z.array(z.unknown()), next: z.string().optional() });

  async function refusalsOnRecord(connector: string, after = ''): Promise<number> {
    const page = await requestManagement(
      system(),
      'GET',
      `/audit?limit=1000&outcome=refused&connector=${connector}${after}`,
    );
    const { items, next } = refusals.parse(page);
    return (
      items.length + (next === undefined ? 0 : await refusalsOnRecord(connector, `&after=${next}`))
    );
  }

  it('LOG-14 audit items of wrong tokens are limited by site and day, and the next day has items again', async () => {
    const { link, token, id } = await connected(system(), 'read');
    await flood(link, MAX_ITEMS + 20, 0);
    await call(link, token, toolCall('search'));
    await until('the call of the person to be recorded', async () =>
      (await untilRecorded(system(), id, 1)).some(({ outcome }) => outcome === 'answered'),
    );
    expect(await refusalsOnRecord(id)).to.equal(MAX_ITEMS);
    advanceClock(86_401);
    await flood(link, 1, 2 * MAX_ITEMS);
    await until('an item of the next day', async () => (await refusalsOnRecord(id)) > MAX_ITEMS);
  });
});
