import { once } from 'node:events';
import { request } from 'node:http';
import { expect } from 'chai';
import { openListening, type Streams } from '../../revocation/open-streams.ts';
import { callBound, connectBound, createProof } from '../../support/dpop.ts';
import type { LogLine } from '../../support/system.ts';
import { until } from '../../support/until.ts';
import { createConnector } from '../../support/management-api.ts';
import { connect } from '../../support/connection.ts';
import { call, callTool, isLimited } from '../../support/mcp.ts';
import { mint } from '../../links/minted-tokens/minting.ts';
import type { Person } from '../../support/browser.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import { useUpstream } from '../../support/upstream/system.ts';

describe('Limits on concurrent calls and streams', () => {
  const behind = useUpstream(startUpstreamV2, {
    settings: { openCalls: { perCaller: 5, inAll: 10 } },
  });
  const open: Streams[] = [];
  afterEach(async () => {
    behind().upstream.release();
    for (const streams of open.splice(0)) await streams.abort();
    await until('no pending call', () => behind().upstream.waiting() === 0);
  });

  type Holder = { link: string; token: string };

  async function newHolder(person: Person = 'ada'): Promise<Holder> {
    const connector = await createConnector(behind().system);
    const { accessToken } = await connect(behind().system, connector, { person });
    return { link: connector.link, token: accessToken };
  }

  async function newTokenHolder(): Promise<Holder> {
    const { token } = await mint(behind().system);
    return { link: `${behind().system.resource}/mcp`, token };
  }

  async function listen({ link, token }: Holder, count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) open.push(await openListening(link, token));
  }

  /** The response to one more stream. */
  function listenMore({ link, token }: Holder) {
    const params = {
      notifications: { toolsListChanged: true },
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'streams', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    };
    const message = { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params };
    return call(link, token, message, {
      headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
    });
  }

  it('DOS-07 one person has at most five calls and streams over all apps, of which four are streams', async () => {
    const [first, second] = [await newHolder(), await newHolder()];
    await listen(first, 2);
    await listen(second, 2);
    for (const holder of [first, second]) {
      const refused = await listenMore(holder);
      expect(isLimited(refused), refused.text).to.equal(true);
      expect(refused.rpc?.error?.message).to.include('too many of your calls and streams');
      expect(refused.rpc?.error).to.have.nested.property('data.retryAfter');
    }
    const long = callTool(first.link, first.token, 'wait');
    await until('the call to wait at the upstream', () => behind().upstream.waiting() === 1);
    expect(isLimited(await callTool(second.link, second.token, 'whoami'))).to.equal(true);
    const other = await newHolder('grace');
    expect((await callTool(other.link, other.token, 'whoami')).status).to.equal(200);
    behind().upstream.release();
    expect((await long).status).to.equal(200);
    expect((await callTool(second.link, second.token, 'whoami')).status).to.equal(200);
    await open.shift()?.abort();
    await until('a free slot', async () => {
      const again = await openListening(first.link, first.token).catch(() => undefined);
      if (again) open.push(again);
      return again !== undefined;
    });
  });

  it('DOS-07 one minted token has at most five calls and streams', async () => {
    const [one, two] = [await newTokenHolder(), await newTokenHolder()];
    await listen(one, 4);
    expect(isLimited(await listenMore(one))).to.equal(true);
    await listen(two, 1);
  });

  it('DOS-07 there are at most ten calls and streams in all, of which eight are streams', async () => {
    const holders = [await newHolder(), await newHolder('grace'), await newTokenHolder()];
    for (const [n, holder] of holders.entries()) await listen(holder, n < 2 ? 4 : 0);
    const [, , last] = holders;
    if (!last) throw new Error('there is no caller');
    const refused = await listenMore(last);
    expect(isLimited(refused), refused.text).to.equal(true);
    expect((await callTool(last.link, last.token, 'whoami')).status).to.equal(200);
    const long = [1, 2].map(() => callTool(last.link, last.token, 'wait'));
    await until('the calls to wait at the upstream', () => behind().upstream.waiting() === 2);
    expect(isLimited(await callTool(last.link, last.token, 'whoami'))).to.equal(true);
    behind().upstream.release();
    for (const { status } of await Promise.all(long)) expect(status).to.equal(200);
    expect((await callTool(last.link, last.token, 'whoami')).status).to.equal(200);
  });

  it('DOS-07 a call or stream frees its slot however it ends', async () => {
    const holder = await newHolder();
    for (let n = 0; n < 12; n += 1) {
      const tool = ['whoami', 'cards', 'undeclared'][n % 3] ?? '';
      expect((await callTool(holder.link, holder.token, tool)).status).to.be.oneOf([200, 403]);
      const wrong = await call(holder.link, holder.token, { jsonrpc: '2.0', method: 5 });
      expect(wrong.status).to.equal(400);
    }
    for (let n = 0; n < 8; n += 1) {
      await listen(holder, 1);
      await open.pop()?.abort();
      await until('no open stream', async () => {
        const streams = await openListening(holder.link, holder.token).catch(() => undefined);
        await streams?.abort();
        return streams !== undefined;
      });
    }
    expect((await callTool(holder.link, holder.token, 'whoami')).status).to.equal(200);
  });
});

describe('A call whose connection closes while the store checks its DPoP proof', () => {
  const log: LogLine[] = [];
  const behind = useUpstream(startUpstreamV2, {
    system: { store: 'redis', log },
    settings: { openCalls: { perCaller: 2 } },
  });
  afterEach(() => behind().system.signalStore('SIGCONT'));

  it('DOS-07 frees its slot', async () => {
    const { system } = behind();
    const connection = await connectBound(system, await createConnector(system));
    const { key, link, accessToken } = connection;
    system.signalStore('SIGSTOP');
    const proofs = [1, 2, 3].map(() => createProof(key, { url: link, token: accessToken }));
    const abandoned = (await Promise.all(proofs)).map((dpop) => {
      const headers = {
        authorization: `DPoP ${accessToken}`,
        dpop,
        'content-type': 'application/json',
      };
      const sent = request(link, { method: 'POST', headers, agent: false });
      sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }), () =>
        setImmediate(() => sent.destroy()),
      );
      return once(sent, 'error');
    });
    await Promise.all(abandoned);
    await until(
      'the server to see that the clients are gone',
      () => log.filter(({ reason }) => reason === 'client_gone').length === abandoned.length,
    );
    system.signalStore('SIGCONT');
    await until('a free slot', async () => !isLimited(await callBound(connection)));
    expect(isLimited(await callBound(connection))).to.equal(false);
  });
});
