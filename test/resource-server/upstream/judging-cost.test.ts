// What judging a call costs before anything is sent: little, whatever the names in it are.
import { expect } from 'chai';
import { requireMessages } from '../../../src/resource-server/upstream/messages.ts';
import { isLookalike, levelRules } from '../../../src/resource-server/upstream/levels.ts';

/** Milliseconds of the processor. */
function costOf(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('Judging a call', () => {
  it('UPS-08 refuses a name that is too long for a tool, at little cost', () => {
    const long = 'n'.repeat(600);
    const tools = ['cards', long].map((name) => ({ name, level: 'full' }));
    const rules = levelRules({ tools, defaultLevel: 'full' } as unknown as Parameters<
      typeof levelRules
    >[0]);
    expect(isLookalike(rules, long)).to.equal(false);
    // One character that NFKC makes eighteen of.
    const costly = '\ufdfa'.repeat(300_000);
    const cost = costOf(() => expect(isLookalike(rules, costly)).to.equal(true));
    expect(cost).to.be.below(100);
  });

  it('costs little, however many members the parameters have', () => {
    const members = Array.from({ length: 100_000 }, (_, n) => [`member-of-${n}`, 0]);
    const params = { name: 'whoami', ...Object.fromEntries(members) };
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    expect(costOf(() => requireMessages(message))).to.be.below(300);
  });
});
