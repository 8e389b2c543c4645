// UPS-06: what verifying the headers `Mcp-Param-*` costs, and which texts of a value count as that value.
import { expect } from 'chai';
import type { Message } from '../../../src/resource-server/upstream/message.ts';
import { openParameterHeaders } from '../../../src/resource-server/upstream/parameter-headers.ts';

const callWith = (given: object): Message => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'whoami', arguments: given },
});

function named(prefix: string, count: number, value: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, n) => [prefix + n.toString(36), value]),
  );
}

describe('The headers that repeat the arguments of a tool call', () => {
  it('UPS-06 cost little, however many headers and arguments there are', () => {
    const { verified } = openParameterHeaders();
    const headers = { ...named('x-', 900, '1'), ...named('mcp-param-', 900, '0') };
    const before = process.cpuUsage();
    const sent = verified(headers as Record<string, string>, callWith(named('', 100_000, 0)));
    const { user, system } = process.cpuUsage(before);
    expect(Object.keys(sent)).to.have.length(900);
    expect((user + system) / 1000).to.be.below(1500);
  });
});
