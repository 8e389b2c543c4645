import { expect } from 'chai';
import { requireMessages } from '../../../src/resource-server/json-rpc.ts';
import { isLookalike, levelRules } from '../../../src/resource-server/upstream/levels.ts';

/** CPU time in milliseconds. */
function costOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('The cost of validating a call', () => {
  it('UPS-08 a tool name that is too long is refused at low cost', () => {
    const long = 'n'.repeat(600);
    const tools = ['cards', long].map((name) => ({ name, level: 'full' }));
    const rules = levelRules({ tools, defaultLevel: 'full' } as unknown as Parameters<
      typeof levelRules
    >[0]);
    expect(isLookalike(rules, long)).to.equal(false);
    // One character that NFKC expands to eighteen.
    const costly = '\ufdfa'.repeat(300_000);
    const cost = costOf(() => expect(isLookalike(rules, costly)).to.equal(true));
    expect(cost).to.be.below(100);
  });

  it('validation is cheap, however many members the parameters have', () => {
    const members = Array.from({ length: 100_000 }, (_, n) => [`member-of-${n}`, 0]);
    const params = { name: 'whoami', ...Object.fromEntries(members) };
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    expect(costOf(() => requireMessages(message))).to.be.below(300);
  });
});
