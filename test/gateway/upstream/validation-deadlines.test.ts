import { expect } from 'chai';
import { parseExact } from '../../../src/gateway/exact-json.ts';
import { requireMessages } from '../../../src/gateway/json-rpc.ts';
import { parameterHeaders } from '../../../src/gateway/upstream/headers.ts';
import { isLookalike, levelRules } from '../../../src/upstreams/tool-levels.ts';
import { meetsDeadline } from '../../support/deadlines.ts';
import { DEFAULT_LEVELS } from '../../support/levels.ts';

function named<Value>(prefix: string, count: number, value: Value): Record<string, Value> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, n) => [prefix + n.toString(36), value]),
  );
}

describe('The cost of validating a call', () => {
  it('UPS-08 a tool name that is too long is refused at low cost', async () => {
    const long = 'n'.repeat(600);
    const tools = ['cards', long].map((name) => ({ name, level: 'full' }));
    const rules = levelRules(DEFAULT_LEVELS, {
      tools,
      defaultLevel: 'full',
    } as unknown as Parameters<typeof levelRules>[1]);
    expect(isLookalike(rules, long)).to.equal(false);
    // One character that NFKC expands to eighteen.
    const costly = '\ufdfa'.repeat(300_000);
    await meetsDeadline('longToolName', async () => {
      expect(isLookalike(rules, costly)).to.equal(true);
    });
  });

  it('validation is cheap, however many members the parameters have', async () => {
    const params = { name: 'whoami', ...named('member-of-', 100_000, 0) };
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    await meetsDeadline('manyMembers', async () => void requireMessages(message));
  });

  it('UPS-06 verifying parameter headers is cheap, however many headers and arguments there are', async () => {
    const { verified } = parameterHeaders();
    const headers = { ...named('x-', 900, '1'), ...named('mcp-param-', 900, '0') };
    const params = { name: 'whoami', arguments: named('', 100_000, 0) };
    const call = { jsonrpc: '2.0' as const, id: 1, method: 'tools/call', params };
    await meetsDeadline('parameterHeaders', async () => {
      expect(Object.keys(verified(headers, call))).to.have.length(900);
    });
  });

  it('DOS-08 one long number does not make large JSON slow to read', async () => {
    const record = JSON.stringify({ id: 1, name: 'Ada', ok: true, v: [1, 2] });
    const records = Array(Math.floor(4_000_000 / record.length)).fill(record);
    const text = `[12345678901234567890,${records.join(',')}]`;
    await meetsDeadline('longNumber', async () => {
      expect(parseExact(text)).to.have.length(records.length + 1);
    });
  });
});
