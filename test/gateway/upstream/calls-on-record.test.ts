import { expect } from 'chai';
import { CALL_OUTCOMES, readActivity } from '../../../src/audit/activity.ts';
import type { Level } from '../../../src/permission-levels.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { type AuditItem, readAllAudit } from '../../support/management-api.ts';
import { call, callTool } from '../../support/mcp.ts';
import { waitForStore } from '../../support/scale-out/patient-timeouts.ts';
import { until } from '../../support/until.ts';
import {
  echo,
  event,
  json,
  PING,
  resultFor,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { connectPerson, useUpstream } from '../../support/upstream/system.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

describe('Calls on record', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  /** Of a new person, once there are so many. */
  async function person(level: 'admin' | 'full' = 'admin', highest: Level = 'full') {
    const { link, token, connector } = await connectPerson(behind().system, level, highest);
    const untilRecorded = (count: number): Promise<AuditItem[]> =>
      until(`${count} calls to be recorded`, async () => {
        const items = (await readAllAudit(behind().system)).filter(
          ({ event, connector: id, outcome }) =>
            event === 'call' && id === connector.id && outcome !== 'started',
        );
        return items.length >= count && items;
      });
    return { link, token, connector, untilRecorded };
  }

  it('a call of a level that is not recorded is in the log within a second, with who, what, how it ended and where it came from', async () => {
    const { link, token, connector, untilRecorded } = await person();
    const meta = {
      traceparent: `00-${TRACE}-00f067aa0ba902b7-01`,
      'io.modelcontextprotocol/clientInfo': { name: 'Desk app', version: '1' },
    };
    const message = { ...toolCall('contacts', 1, { member: 'M1' }), id: 7 };
    const { params } = message as unknown as { params: object };
    await call(
      link,
      token,
      { ...message, params: { ...params, _meta: meta } },
      {
        headers: { 'user-agent': 'test/1' },
      },
    );
    const [item] = await untilRecorded(1);
    expect(item).to.deep.include({
      event: 'call',
      outcome: 'answered',
      connector: connector.id,
      upstream: 'default',
      tool: 'contacts',
      level: 'admin',
      userAgent: 'test/1',
      clientName: 'Desk app',
      traceId: TRACE,
    });
    expect(item).to.include.all.keys('id', 'epoch', 'number', 'account', 'clientId', 'grantId');
    for (const name of ['ms', 'bytesIn', 'bytesOut']) expect(item?.[name], name).to.be.a('number');
    expect(item?.['address']).to.match(/127\.0\.0\.1|::1/);
    expect(item).to.not.include.any.keys('argumentsJson', 'arguments');
  });

  it('the trace of a call is that of its header, if the message names none', async () => {
    const { link, token, untilRecorded } = await person();
    const headers = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };
    await call(link, token, toolCall('contacts', 1), { headers });
    expect((await untilRecorded(1))[0]).to.include({ traceId: TRACE });
  });

  it('answers, tool errors, JSON-RPC errors and faults of the server have outcomes of their own', async () => {
    const { link, token, untilRecorded } = await person();
    const answers: [outcome: object, body: object | number][] = [
      [{ outcome: 'answered' }, { result: {} }],
      [{ outcome: 'answered', toolError: true }, { result: { isError: true, content: [] } }],
      [{ outcome: 'failed', reason: 'error' }, { error: { code: -32_000, message: 'no' } }],
      [{ outcome: 'failed', reason: 'bad_gateway' }, 500],
    ];
    for (const [, body] of answers) {
      behind().upstream.respondWith((_req, res) => {
        if (typeof body === 'number') res.writeHead(body).end();
        else json(res, { jsonrpc: '2.0', id: 1, ...body });
      });
      await call(link, token, toolCall('contacts', 1));
    }
    const items = await untilRecorded(answers.length);
    for (const [n, [expected]] of answers.entries()) expect(items[n]).to.include(expected);
  });

  it('the overview counts the calls with the outcomes that the log has', async () => {
    const { link, token, connector } = await person();
    const { store } = await openSystemStore(behind().system);
    const counted = async (level = 'admin') => {
      const { hours } = await readActivity(store, 2, Date.now() / 1000);
      return CALL_OUTCOMES.map((outcome) =>
        hours.reduce((sum, { counts }) => sum + (counts[`call ${level} ${outcome}`] ?? 0), 0),
      );
    };
    const countedAtFull = async () => String(await counted('full'));
    const inLog = async () => {
      const items = (await readAllAudit(behind().system)).filter(
        ({ event, connector: id }) => event === 'call' && id === connector.id,
      );
      return ['answered', 'refused', 'failed'].map(
        (outcome) => items.filter((item) => item.outcome === outcome).length,
      );
    };
    // Counts are written together, so those of earlier calls too.
    const earlier = await countedAtFull();
    const full = await person('full');
    await call(full.link, full.token, toolCall('cards', 1, { member: 'M1' }));
    await until('the counts of earlier calls', async () => (await countedAtFull()) !== earlier);
    const before = await counted();
    for (const body of [{ result: {} }, { error: { code: -32_000, message: 'no' } }]) {
      behind().upstream.respondWith((_req, res) => json(res, { jsonrpc: '2.0', id: 1, ...body }));
      await call(link, token, toolCall('contacts', 1));
    }
    await call(link, token, toolCall('delete_everything', 1));
    await until('the calls', async () => (await inLog()).reduce((sum, n) => sum + n, 0) === 3);
    const added = await until('the counts', async () => {
      const all = (await counted()).map((count, n) => count - (before[n] ?? 0));
      return all.reduce((sum, count) => sum + count, 0) >= 3 && all;
    });
    expect(added).to.deep.equal(await inLog());
    expect(added).to.deep.equal([1, 1, 1]);
    await store.close();
  });

  it('a call of a recorded level is one row: begun before it was made, and then as it ended', async () => {
    const { link, token, untilRecorded } = await person('full');
    behind().upstream.respondWith((_req, res) =>
      json(res, { jsonrpc: '2.0', id: 1, result: { isError: true, content: [] } }),
    );
    await call(link, token, toolCall('cards', 1, { member: 'M1' }));
    const items = await untilRecorded(1);
    expect(items).to.have.lengthOf(1);
    expect(items[0]).to.include({
      outcome: 'answered',
      toolError: true,
      argumentsJson: '{"member":"M1"}',
    });
    expect(items[0]).to.include.keys('ms', 'bytesOut');
  });

  it('the resource of a read is named without its query, and the prompt by its name', async () => {
    const { link, token, untilRecorded } = await person('full');
    for (const [method, params] of [
      ['resources/read', { uri: 'https://example.com/report?token=secret#part' }],
      ['prompts/get', { name: 'greeting' }],
    ] as const)
      await call(link, token, { jsonrpc: '2.0', id: 1, method, params });
    const items = await untilRecorded(2);
    expect(items.map(({ method, target }) => ({ method, target }))).to.deep.equal([
      { method: 'resources/read', target: 'https://example.com/report' },
      { method: 'prompts/get', target: 'greeting' },
    ]);
  });

  it('the bytes of a call are those of the bodies, also of a request without a length and of a stream', async () => {
    const { link, token, untilRecorded } = await person();
    const message = toolCall('contacts', 1, { member: 'Zoë' });
    const { text } = await call(link, token, message);
    behind().upstream.respondWith((_req, res) => {
      stream(res, event(resultFor(PING, { text: 'é'.repeat(1000) })));
      res.end();
    });
    const body = new Blob([JSON.stringify(message)]);
    const chunked = await fetch(link, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: body.stream(),
      duplex: 'half',
    });
    const events = await chunked.text();
    expect(events).to.include('ééé');
    const items = await untilRecorded(2);
    expect(items.map(({ bytesIn, bytesOut }) => [bytesIn, bytesOut])).to.deep.equal([
      [body.size, Buffer.byteLength(text)],
      [body.size, Buffer.byteLength(events)],
    ]);
  });

  it('a call whose stream ended before the answer is answered if the client can resume the stream, and failed if not', async () => {
    const { link, token, untilRecorded } = await person('full');
    for (const event of ['id: 1\nretry: 500\ndata: \n\n', ':\n\n']) {
      behind().upstream.respondWith((_req, res) => {
        stream(res, event);
        res.end();
      });
      await call(link, token, toolCall('cards', 1));
    }
    const items = await untilRecorded(2);
    expect(items.map(({ outcome, reason }) => [outcome, reason])).to.deep.equal([
      ['answered', 'resumable'],
      ['failed', 'bad_gateway'],
    ]);
  });

  it('requests that need no level are not in the log', async () => {
    const { link, token, untilRecorded } = await person();
    await call(link, token, PING);
    await call(link, token, { ...PING, method: 'tools/list' });
    await callTool(link, token, 'contacts');
    expect((await untilRecorded(1)).map(({ tool }) => tool)).to.deep.equal(['contacts']);
  });

  it('LOG-13 names of a megabyte, control characters and lone surrogates are recorded shortened and well-formed', async () => {
    const { link, token, untilRecorded } = await person();
    const name = `\u001b[31m\ud800${'x'.repeat(900_000)}`;
    await call(link, token, toolCall(name, 1));
    const [item] = await untilRecorded(1);
    expect(item?.tool).to.have.lengthOf(256);
    expect(item?.tool?.isWellFormed()).to.equal(true);
    expect(item?.outcome).to.equal('refused');
  });

  it('LOG-14 of a flood of refused calls of one connection, the log has one item', async () => {
    const { link, token, untilRecorded } = await person();
    for (let n = 0; n < 20; n += 1) await callTool(link, token, `no_such_tool_${n}`);
    await callTool(link, token, 'contacts');
    const items = await untilRecorded(2);
    expect(items.map(({ outcome }) => outcome).toSorted()).to.deep.equal(['answered', 'refused']);
  });

  it('of a batch with a refused call, the others are refused for the batch', async () => {
    const { link, token, untilRecorded } = await person('admin', 'admin');
    await call(link, token, [toolCall('delete_everything', 1), toolCall('contacts', 2)]);
    const items = await untilRecorded(2);
    expect(items.map(({ tool, outcome, reason }) => [tool, outcome, reason])).to.deep.equal([
      ['delete_everything', 'refused', 'forbidden'],
      ['contacts', 'refused', 'batch_refused'],
    ]);
  });

  it('the calls of a batch with the same id each have their own item', async () => {
    const { link, token, untilRecorded } = await person('full');
    behind().upstream.respondWith((_req, res) => json(res, [resultFor(PING), resultFor(PING)]));
    await call(link, token, [toolCall('whoami', 1, { n: 1 }), toolCall('cards', 1, { n: 2 })]);
    const items = await untilRecorded(2);
    expect(items.map(({ tool, argumentsJson }) => [tool, argumentsJson])).to.deep.equal([
      ['whoami', '{"n":1}'],
      ['cards', '{"n":2}'],
    ]);
  });
});

describe('Calls on record while the store does not answer', () => {
  let restoreTimeouts: (() => void) | undefined;
  before(() => {
    restoreTimeouts = waitForStore();
  });
  after(() => restoreTimeouts?.());
  const behind = useUpstream(startScriptedUpstream, { system: { store: 'redis' } });
  afterEach(() => behind().system.signalStore('SIGCONT'));

  it('LOG-15 a call of a level that is not recorded waits for nothing, and is in the log once when the store is back', async () => {
    const { link, token, connector } = await behind().connected('admin');
    await callTool(link, token, 'contacts');
    behind().system.signalStore('SIGSTOP');
    const began = performance.now();
    const { rpc } = await callTool(link, token, 'contacts', { frozen: true });
    expect(rpc?.result).to.deep.equal({});
    // A call that waited for the store would wait until it is patient no more.
    expect(performance.now() - began, 'milliseconds').to.be.below(15_000);
    behind().system.signalStore('SIGCONT');
    const items = await until('both calls to be recorded', async () => {
      const found = (await readAllAudit(behind().system)).filter(
        ({ event, connector: id }) => event === 'call' && id === connector.id,
      );
      return found.length >= 2 && found;
    });
    expect(new Set(items.map(({ id }) => id))).to.have.lengthOf(2);
    expect(items).to.have.lengthOf(2);
  });
});
