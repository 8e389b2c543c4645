import { expect } from 'chai';
import { advanceClock } from '../../support/clock.ts';
import {
  type PersistentRedis,
  startPersistentRedis,
} from '../../support/faults/persistent-redis.ts';
import { type RedisProxy, startRedisProxy } from '../../support/faults/redis-proxy.ts';
import { readAudit } from '../../support/management-api.ts';
import { call, callTool, postBody } from '../../support/mcp.ts';
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

describe('The audit of upstream calls with the level full', () => {
  const behind = useUpstream(startScriptedUpstream, { system: { store: 'redis' } });
  afterEach(() => {
    behind().system.signalStore('SIGCONT');
    behind().upstream.respondWith(echo);
  });

  const recorded = async () =>
    (await readAudit(behind().system)).filter(({ event }) => event === 'call');

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
      arguments: { member: 'M1' },
      outcome: 'allowed',
    });
    expect(onRecord.at(-1)).to.include.keys('account', 'grantId', 'time');
    await call(link, token, READ);
    expect(onRecord.at(-1)).to.deep.include({ tool: 'resources/read', arguments: READ.params });
  });

  it('each call of a batch is audited, and initializing and listing are not', async () => {
    const { link, token } = await behind().connected('full');
    const before = (await recorded()).length;
    await call(link, token, [toolCall('whoami', 1), PING, toolCall('cards', 2)]);
    await call(link, token, { ...PING, method: 'tools/list' });
    const tools = (await recorded()).slice(before).map(({ tool }) => tool);
    expect(tools).to.deep.equal(['whoami', 'cards']);
  });

  it('numbers are audited with every digit, as text if a JSON parser would round them', async () => {
    const { link, token } = await behind().connected('full');
    const big = '12345678901234567891';
    const response = await postBody(
      link,
      token,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cards","arguments":{"id":${big},"few":[7]}}}`,
    );
    expect(response.status).to.equal(200);
    const given = (await recorded()).at(-1)?.arguments;
    expect(given).to.deep.equal({ id: big, few: [7] });
  });

  it('calls below full are not audited', async () => {
    const { link, token } = await behind().connected('admin');
    const before = (await recorded()).length;
    await callTool(link, token, 'contacts');
    expect(await recorded()).to.have.length(before);
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
    expect((await callTool(link, token, 'cards')).rpc?.result).to.deep.equal({});
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
