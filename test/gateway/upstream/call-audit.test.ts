import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { advanceClock } from '../../support/clock.ts';
import {
  type PersistentRedis,
  startPersistentRedis,
} from '../../support/faults/persistent-redis.ts';
import { type RedisProxy, startRedisProxy } from '../../support/faults/redis-proxy.ts';
import { type AuditItem, readAudit } from '../../support/management-api.ts';
import { call, callTool, postBody } from '../../support/mcp.ts';
import { until } from '../../support/until.ts';
import {
  resultFor,
  echo,
  json,
  PING,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const READ = {
  jsonrpc: '2.0',
  id: 1,
  method: 'resources/read',
  params: { uri: 'file:///report' },
};

/** As the audit log names what it does not keep. */
function digestOf(value: unknown) {
  const json = JSON.stringify(value);
  const sha256 = createHash('sha256').update(json).digest('hex');
  return { bytes: Buffer.byteLength(json), sha256 };
}

function withoutCaller({ tool, arguments: given, ...item }: AuditItem) {
  return { tool, reason: item['reason'], arguments: given };
}

describe('The audit of upstream calls with the level full', () => {
  const behind = useUpstream(startScriptedUpstream, { system: { store: 'redis' } });
  afterEach(() => {
    behind().system.signalStore('SIGCONT');
    behind().upstream.respondWith(echo);
  });

  const recorded = async () =>
    (await readAudit(behind().system)).filter(({ level }) => level === 'full');
  const untilRecorded = (count: number, outcome: string) =>
    until(`${count} calls to be ${outcome}`, async () => {
      const items = await recorded();
      return items.filter((item) => item.outcome === outcome).length >= count && items;
    });

  it('a call is audited before the upstream receives it, with person, client, connector, tool and arguments', async () => {
    const { link, token, connector, connection } = await behind().connected('full');
    let onRecord: Awaited<ReturnType<typeof recorded>> = [];
    behind().upstream.respondWith(async (_req, res) => {
      onRecord = await recorded();
      json(res, resultFor(PING));
    });
    await callTool(link, token, 'cards', { member: 'M1' });
    expect(onRecord.at(-1)).to.deep.include({
      event: 'call',
      clientId: connection.client.id,
      connector: connector.id,
      tool: 'cards',
      argumentsJson: '{"member":"M1"}',
      outcome: 'started',
    });
    expect(onRecord.at(-1)).to.include.keys('account', 'grantId', 'time');
    await call(link, token, READ);
    expect(onRecord.at(-1)).to.deep.include({
      method: 'resources/read',
      target: 'file:///report',
      argumentsJson: JSON.stringify(READ.params),
    });
  });

  it('each call of a batch is audited, and initializing and listing are not', async () => {
    const { link, token } = await behind().connected('full');
    const before = (await recorded()).length;
    await call(link, token, [toolCall('whoami', 1), PING, toolCall('cards', 2)]);
    await call(link, token, { ...PING, method: 'tools/list' });
    const tools = (await recorded()).slice(before).map(({ tool }) => tool);
    expect(tools).to.deep.equal(['whoami', 'cards']);
  });

  it('numbers are audited with every digit', async () => {
    const { link, token } = await behind().connected('full');
    const big = '12345678901234567891';
    const response = await postBody(
      link,
      token,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cards","arguments":{"id":${big},"few":[7]}}}`,
    );
    expect(response.status).to.equal(200);
    expect((await recorded()).at(-1)?.argumentsJson).to.equal(`{"id":${big},"few":[7]}`);
  });

  it('RSV-12 arguments that are padded still say whom the call is about', async () => {
    const { link, token } = await behind().connected('full');
    const [text, list] = ['é'.repeat(40_000), Array(30_000).fill(7)];
    const given = { member: 'M1', filter: { card: 12, note: text }, list };
    expect((await callTool(link, token, 'cards', given)).rpc?.result).to.deep.equal({});
    const { argumentsJson = '', ...item } = (await recorded()).at(-1) ?? {};
    expect(item).not.to.include.keys('arguments');
    expect(JSON.parse(argumentsJson)).to.deep.equal({
      member: 'M1',
      filter: { card: 12, note: digestOf(text) },
      list: digestOf(list),
    });
  });

  it('RSV-12 arguments of a megabyte with control characters and formulas are forwarded, and audited by their length and hash', async () => {
    const { link, token } = await behind().connected('full');
    const [formula, note] = ['=cmd|\u001b[31m\u0000\u202e', '\u0007'.repeat(165_000)];
    const { status, rpc } = await callTool(link, token, 'cards', { formula, note });
    expect([status, rpc?.result]).to.deep.equal([200, {}]);
    const { argumentsJson = '' } = (await recorded()).at(-1) ?? {};
    expect(JSON.parse(argumentsJson)).to.deep.equal({ formula, note: digestOf(note) });
  });

  it('RSV-12 arguments of 64 kB are audited as they are', async () => {
    const { link, token } = await behind().connected('full');
    const given = { note: 'x'.repeat(64 * 1024 - '{"note":""}'.length) };
    expect((await callTool(link, token, 'cards', given)).status).to.equal(200);
    expect((await recorded()).at(-1)?.argumentsJson).to.equal(JSON.stringify(given));
  });

  it('RSV-12 a call with arguments that are too long to be audited is refused and not forwarded, and with it its batch', async () => {
    const { link, token } = await behind().connected('full');
    const { upstream } = behind();
    const before = upstream.received.length;
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`member ${n}`, n]));
    const { rpc } = await callTool(link, token, 'cards', many);
    expect(rpc?.error?.code).to.equal(-32_602);
    expect(rpc?.error?.message).to.match(/too long/);
    const batch = await call(link, token, [toolCall('whoami', 1), toolCall('cards', 2, many)]);
    const answers: { error?: { code: number } }[] = JSON.parse(batch.text);
    expect(answers.map(({ error }) => error?.code)).to.deep.equal([-32_602, -32_602]);
    expect(upstream.received).to.have.length(before);
    const items = await untilRecorded(2, 'refused');
    const refused = items.filter(({ outcome }) => outcome === 'refused');
    expect(refused.map(withoutCaller)).to.deep.equal([
      { tool: 'cards', reason: 'arguments_too_long', arguments: digestOf(many) },
      { tool: 'whoami', reason: 'batch_refused', arguments: undefined },
    ]);
  });

  it('a call that cannot be audited is refused and not forwarded', async () => {
    const { link, token } = await behind().connected('full');
    const { upstream, system } = behind();
    await call(link, token, PING);
    const before = upstream.received.length;
    system.signalStore('SIGSTOP');
    const { status, rpc } = await callTool(link, token, 'cards');
    expect([status, rpc?.error?.code]).to.deep.equal([200, -32_603]);
    expect(rpc?.error?.message).to.match(/must be recorded/);
    const batch = await call(link, token, [toolCall('whoami', 1), toolCall('cards', 2)]);
    expect(JSON.parse(batch.text)).to.have.length(2);
    expect(upstream.received).to.have.length(before);
    // Calls that need no audit succeed while the cached records are fresh.
    expect((await call(link, token, PING)).status).to.equal(200);
    system.signalStore('SIGCONT');
    const again = await until(
      'calls to be recorded',
      async () => (await callTool(link, token, 'cards')).rpc?.result,
    );
    expect(again).to.deep.equal({});
  });
});

describe('A call with the level full whose record takes long', () => {
  const system: { storeAddress?: string } = {};
  let redis: PersistentRedis;
  let proxy: RedisProxy;
  before(async () => {
    redis = await startPersistentRedis();
    proxy = await startRedisProxy(redis);
    system.storeAddress = proxy.url;
  });
  const behind = useUpstream(startScriptedUpstream, { system });
  after(async () => {
    await proxy?.close();
    await redis?.close();
  });

  it('the call is refused and not forwarded if its token expires meanwhile', async () => {
    const { link, token } = await behind().connected('full');
    expect((await callTool(link, token, 'cards')).status).to.equal(200);
    const before = behind().upstream.received.length;
    proxy.setRule(({ name, kind }) =>
      kind === 'audit' && name.startsWith('eval') ? 'hold reply' : 'pass',
    );
    const answer = callTool(link, token, 'cards');
    await proxy.whenHeld();
    advanceClock(3700);
    proxy.release();
    const { status, text } = await answer;
    expect(status).to.equal(401);
    expect(text).to.match(/expired/);
    expect(behind().upstream.received).to.have.length(before);
  });
});
