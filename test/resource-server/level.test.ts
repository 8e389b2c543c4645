// Claims about the level a JSON-RPC body needs and the answer to a caller that holds less.
import { expect } from 'chai';
import { LEVELS } from '../../src/permission-level.ts';
import type { Level } from '../../src/permission-level.ts';
import { decide, neededLevel } from '../../src/resource-server/level.ts';

const levels = new Map<string, Level>([
  ['count', 'analytics'],
  ['names', 'operations'],
  ['accounts', 'full'],
]);

function call(name: unknown) {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } };
}

describe('the level a body needs', () => {
  it('is the level of the tool it calls', () => {
    expect(neededLevel(call('names'), levels)).to.deep.equal({
      level: 'operations',
      tool: 'names',
    });
  });

  it('is the highest level of the calls in a batch, wherever it stands', () => {
    const needed = { level: 'full', tool: 'accounts' };
    expect(neededLevel([call('count'), call('accounts'), call('names')], levels)).to.deep.equal(
      needed,
    );
    expect(neededLevel([call('accounts'), call('count')], levels)).to.deep.equal(needed);
  });

  it('is none for other methods, unknown tools and names every object has', () => {
    expect(neededLevel({ ...call('names'), method: 'tools/list' }, levels)).to.equal(undefined);
    expect(neededLevel(call('elsewhere'), levels)).to.equal(undefined);
    expect(neededLevel(call('__proto__'), levels)).to.equal(undefined);
  });

  it('is none for bodies that are no JSON-RPC message', () => {
    const bodies = [undefined, null, 7, 'tools/call', [], [[]], [null], {}, call(7), call(null)];
    for (const body of [...bodies, { method: 'tools/call' }, { method: 'tools/call', params: 1 }]) {
      expect(neededLevel(body, levels), JSON.stringify(body)).to.equal(undefined);
    }
  });
});

describe('a caller that needs a level', () => {
  it('is allowed up to the level it holds', () => {
    const caller = { level: 'admin', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => decide(caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'allowed',
      'never',
    ]);
  });

  it('may step up as far as the connector goes', () => {
    const caller = { level: 'analytics', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => decide(caller, level))).to.deep.equal([
      'allowed',
      'step-up',
      'step-up',
      'never',
    ]);
  });

  it('never steps up with a minted token, whatever its ceiling says', () => {
    const caller = { level: 'operations', ceiling: 'full', minted: true } as const;
    expect(LEVELS.map((level) => decide(caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'never',
      'never',
    ]);
  });
});
