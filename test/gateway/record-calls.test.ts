import type Koa from 'koa';
import { expect } from 'chai';
import type { WaitingItem } from '../../src/audit/audit-buffer.ts';
import type { AuthenticatedCall } from '../../src/gateway/call.ts';
import { callAudit, type CallAuditOptions } from '../../src/gateway/call-audit.ts';
import type { Message } from '../../src/gateway/json-rpc.ts';
import { recordCalls } from '../../src/gateway/record-calls.ts';
import { type ChainLog, openChainLog } from '../audit/chain/chain-log.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';
import { caller } from '../support/upstream/filter-options.ts';

const MESSAGE: Message = {
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'whoami' },
};

describe('A recorded call whose client disconnects before the call is made', () => {
  let log: ChainLog;
  beforeEach(async () => {
    log = await openChainLog('sqlite');
  });
  afterEach(() => log.close());

  function begin() {
    const waiting: WaitingItem[] = [];
    const add = (item: WaitingItem) => void waiting.push(item);
    const audit = callAudit({
      settings: { audit: { calls: 'all', addresses: 'full' }, levels: DEFAULT_LEVELS },
      services: {
        ...log.services,
        auditBuffer: { add, addRefused: (_key: string, item: WaitingItem) => add(item) },
        activity: { calls: () => undefined },
      },
      refusals: { consume: async () => undefined },
    } as unknown as CallAuditOptions);
    const ctx = {
      state: { requestId: 'abcdefghijkl', address: '203.0.113.7' },
      req: { headers: {} },
      res: { headersSent: false },
      response: {},
    } as unknown as Koa.Context;
    const call = {
      ctx,
      caller,
      body: MESSAGE,
      connector: { id: 'orders', upstream: 'main' },
      revalidate: async () => undefined,
    } as unknown as AuthenticatedCall;
    audit.begin(call, [{ level: 'full', items: [] }] as unknown as Parameters<
      typeof audit.begin
    >[1]);
    const { logger } = log.services;
    const record = async () => {
      try {
        return await recordCalls({ audit, levels: DEFAULT_LEVELS, logger }, call, [MESSAGE]);
      } catch (error) {
        return error;
      }
    };
    return { audit, call, record, waiting };
  }

  const stored = async () => (await log.items()).filter(({ event }) => event === 'call');

  it('LOG-22 is one item if it ended before the item is stored, and is not made', async () => {
    const { audit, call, record, waiting } = begin();
    audit.end(call);
    expect(await record()).to.have.property('code', 'client_gone');
    expect(await stored()).to.deep.equal([]);
    // The item waits to be stored, and nothing may change it then.
    expect(waiting.map(({ item }) => [item.event, item.reason, item.argumentsJson])).to.deep.equal([
      ['call', 'client_gone', undefined],
    ]);
  });

  it('LOG-22 is one item with its end if it ends while the item is stored, and is not made', async () => {
    const { audit, call, record, waiting } = begin();
    const recording = record();
    audit.end(call);
    expect(await recording).to.have.property('code', 'client_gone');
    const [started, ...others] = await stored();
    expect(others).to.deep.equal([]);
    expect(started).to.have.property('outcome', 'started');
    expect(waiting.map(({ item }) => [item.event, item.call, item.reason])).to.deep.equal([
      ['call_ended', started?.id, 'client_gone'],
    ]);
  });
});
