// The processor time that the audit log takes of a call of a level that is not recorded, before its answer is sent and afterwards:
// node test/bench/call-audit.ts [calls]
import type Koa from 'koa';
import { openActivity } from '../../src/audit/activity.ts';
import { openAuditBuffer } from '../../src/audit/audit-buffer.ts';
import type { AuthenticatedCall } from '../../src/gateway/call.ts';
import { callAudit, type CallAuditOptions, noteAnswer } from '../../src/gateway/call-audit.ts';
import { STORES } from '../support/system.ts';
import { openChainLog } from '../audit/chain/chain-log.ts';

const [, , given = '50000'] = process.argv;
const CALLS = Number(given);
/** Of the buffer, which is emptied between two rounds. */
const AT_A_TIME = 5000;
const LEVELS = ['read', 'write'].map((id) => ({ id, recorded: false }));
const ANSWER = { jsonrpc: '2.0', id: 7, result: { content: [{ type: 'text', text: 'ok' }] } };

function newCall(): AuthenticatedCall {
  const ctx = {
    state: {
      requestId: 'abcdefghijkl',
      address: '203.0.113.7',
      receivedBytes: 143,
      sentBytes: 512,
    },
    req: { headers: { 'user-agent': 'Claude-User/1.0', traceparent: TRACE } },
    res: { headersSent: true, statusCode: 200 },
    response: { length: 512 },
  } as unknown as Koa.Context;
  const params = { name: 'search_orders', arguments: { customer: 'ada', limit: 10 } };
  return {
    ctx,
    connectorId: 'orders',
    body: { jsonrpc: '2.0', id: 7, method: 'tools/call', params },
    caller: CALLER,
    connector: { id: 'orders', upstream: 'main' },
    toolCalls: 1,
  } as unknown as AuthenticatedCall;
}

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const CALLER = {
  accountId: 'an-account-with-a-long-id',
  clientId: 'https://app.example.com/client.json',
  connector: 'orders',
  grantId: 'a-grant-with-a-long-id',
  tokenId: 'a-token',
  level: 'read',
  ceiling: 'read',
  minted: false,
};
const REQUIRED = [{ level: 'read', tool: 'search_orders' }];

type Spent = { name: string; microseconds: number };

async function measure(kind: (typeof STORES)[number]): Promise<Spent[]> {
  const log = await openChainLog(kind);
  const metrics = { auditEvent: () => undefined, auditDropped: () => undefined };
  const services = { ...log.services, metrics };
  const onError = (error: unknown) => process.stderr.write(`${String(error)}\n`);
  const activity = openActivity({ ...services, levels: () => LEVELS, onError });
  const total: Record<string, number> = {};
  const spend = async (name: string, work: () => unknown) => {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    total[name] = (total[name] ?? 0) + user + system;
  };
  const round = async () => {
    const auditBuffer = openAuditBuffer({ services, hasRoom: () => true, keepTime: () => 1 });
    const audit = callAudit({
      settings: { audit: AUDIT, levels: LEVELS },
      services: { ...services, auditBuffer, activity },
      refusals: NOT_LIMITED,
    } as unknown as CallAuditOptions);
    const calls = Array.from({ length: AT_A_TIME }, newCall);
    await spend('before the answer is sent', () => {
      for (const call of calls) {
        audit.begin(call, REQUIRED);
        noteAnswer(call, ANSWER);
      }
    });
    await spend('afterwards, on the same thread', () => calls.forEach((call) => audit.end(call)));
    await spend('storing, in batches', () => auditBuffer.close());
  };
  // Compiled code, as a server has it.
  for (let rounds = 0; rounds < 6; rounds += 1) await round();
  for (const name of Object.keys(total)) total[name] = 0;
  const rounds = Math.ceil(CALLS / AT_A_TIME);
  for (let n = 0; n < rounds; n += 1) await round();
  await activity.close();
  await log.close();
  return Object.entries(total).map(([name, spent]) => ({
    name,
    microseconds: spent / (rounds * AT_A_TIME),
  }));
}

const AUDIT = { calls: 'all', addresses: 'full' } as const;
const NOT_LIMITED = { consume: async () => undefined };

for (const kind of STORES)
  for (const { name, microseconds } of await measure(kind))
    process.stdout.write(`${kind}: ${name}: ${microseconds.toFixed(1)} µs of processor time\n`);
