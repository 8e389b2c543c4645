import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type OpenCalls, openOpenCalls } from '../../../src/gateway/upstream/open-calls.ts';
import { type OpenedStore, openStore } from '../../../src/store/open.ts';
import { openListening, type Streams } from '../../revocation/open-streams.ts';
import { connect } from '../../support/connection.ts';
import { createConnector } from '../../support/management-api.ts';
import { useProcesses } from '../../support/scale-out/processes.ts';
import { until } from '../../support/until.ts';
import { startUpstreamV2 } from '../../support/upstream/sdk-v2.ts';
import type { Upstream } from '../../support/upstream/upstream-server.ts';
import { DECLARED } from '../../support/upstream/upstream-tools.ts';
import { PATIENT_TIMEOUTS } from '../../support/scale-out/patient-timeouts.ts';

const LISTEN = {
  jsonrpc: '2.0',
  id: 1,
  method: 'subscriptions/listen',
  params: {
    notifications: { toolsListChanged: true },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'streams', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
};
const HEADERS = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' };

describe('The calls and streams of one person in several processes', () => {
  let upstream: Upstream;
  const processes = useProcesses(async () => {
    upstream = await startUpstreamV2();
    const settings = { url: upstream.url, tools: DECLARED, openCalls: { perCaller: 5 } };
    const file = { resourceServer: { upstream: settings } };
    return { store: 'redis', count: 2, inThisProcess: true, file };
  });
  before(() => upstream.trustIssuer(processes().auth));
  after(() => upstream?.close());
  const open: Streams[] = [];
  after(async () => void (await Promise.all(open.map((streams) => streams.abort()))));

  it('DOS-07 are limited together, and those of a process that stops are free again', async () => {
    const connector = await createConnector(processes());
    const { accessToken } = await connect(processes(), connector);
    // Each goes to the next process; neither process alone has more than three.
    for (let n = 0; n < 4; n += 1) open.push(await openListening(connector.link, accessToken));
    const isOneMoreRefused = async () => {
      const { headers, body } = await listen(connector.link, accessToken);
      await body?.cancel();
      return headers.has('retry-after');
    };
    await until('one more to be refused', isOneMoreRefused);
    await until('the next process to refuse, too', isOneMoreRefused);
    await processes().running()[0]?.stop();
    await until('a free slot', async () => !(await isOneMoreRefused()));
  });
});

function listen(link: string, token: string): Promise<Response> {
  return fetch(link, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...HEADERS,
    },
    body: JSON.stringify(LISTEN),
  });
}

describe('The open calls that processes announce to each other', () => {
  let directory: string;
  let store: OpenedStore;
  const opened: OpenCalls[] = [];
  let time = 0;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'open-calls-'));
    const address = { kind: 'sqlite', file: 'test.sqlite' } as const;
    store = await openStore(address, {
      secret: 'a secret of this test only',
      dataDir: directory,
      timeouts: PATIENT_TIMEOUTS,
    });
  });
  afterEach(async () => void (await Promise.all(opened.splice(0).map((each) => each.close()))));
  after(async () => {
    await store.close();
    await rm(directory, { recursive: true });
  });

  async function openOne(through: Pick<OpenedStore, 'publish' | 'subscribe'> = store) {
    const one = await openOpenCalls(through, () => time);
    opened.push(one);
    return one;
  }

  it('DOS-07 a call counts elsewhere once it has lasted, and until it ends', async () => {
    const [one, other] = [await openOne(), await openOne()];
    const end = one.open('tools', 'ada', false);
    expect(one.count('ada')).to.equal(1);
    expect(other.count('ada')).to.equal(0);
    time += 300;
    await until('the other process to know', () => other.count('ada') === 1);
    expect(one.count('ada')).to.equal(1);
    expect(other.count('grace')).to.equal(0);
    end();
    end();
    expect(one.count('ada')).to.equal(0);
    await until('the other process to know', () => other.count('ada') === 0);
  });

  it('DOS-07 a new process learns what is open elsewhere', async () => {
    const one = await openOne();
    one.open('tools', 'ada', false);
    time += 300;
    const late = await openOne();
    await until('the new process to know', () => late.count('ada') === 1);
  });

  it('DOS-07 a process that has stopped says nothing any more', async () => {
    const stopped = await openOne();
    stopped.open('tools', 'ada', true);
    await stopped.close();
    const [one, other] = [await openOne(), await openOne()];
    one.open('tools', 'grace', false);
    time += 300;
    await until('the other process to know', () => other.count('grace') === 1);
    expect(other.count('ada')).to.equal(0);
  });

  it('DOS-07 calls of a process that died are free after half a minute', async () => {
    let isDead = false;
    const publish: OpenedStore['publish'] = async (channel, message) =>
      isDead ? undefined : store.publish(channel, message);
    const [one, other] = [await openOne({ ...store, publish }), await openOne()];
    one.open('tools', 'ada', true);
    time += 300;
    await until('the other process to know', () => other.count('ada') === 1);
    isDead = true;
    time += 29_000;
    expect(other.count('ada')).to.equal(1);
    time += 2_000;
    await until('the dead process to be forgotten', () => other.count('ada') === 0);
  });
});
