import { expect } from 'chai';
import { LEVELS } from '../../src/permission-level.ts';
import type { Level } from '../../src/permission-level.ts';
import { authorize } from '../../src/resource-server/authorize.ts';
import { requiredLevel } from '../../src/resource-server/sample/mcp-server.ts';

const levels = new Map<string, Level>([
  ['count', 'analytics'],
  ['names', 'operations'],
  ['accounts', 'full'],
]);

function call(name: unknown) {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } };
}

describe('the required level of a body', () => {
  it('the required level is that of the called tool', () => {
    expect(requiredLevel(call('names'), levels)).to.deep.equal({
      level: 'operations',
      tool: 'names',
    });
  });

  it('the required level is the highest in a batch, in any position', () => {
    const needed = { level: 'full', tool: 'accounts' };
    expect(requiredLevel([call('count'), call('accounts'), call('names')], levels)).to.deep.equal(
      needed,
    );
    expect(requiredLevel([call('accounts'), call('count')], levels)).to.deep.equal(needed);
  });

  it('the required level is undefined for other methods, unknown tools and names of Object.prototype', () => {
    expect(requiredLevel({ ...call('names'), method: 'tools/list' }, levels)).to.equal(undefined);
    expect(requiredLevel(call('elsewhere'), levels)).to.equal(undefined);
    expect(requiredLevel(call('__proto__'), levels)).to.equal(undefined);
  });

  it('the required level is undefined for bodies that are not JSON-RPC', () => {
    const bodies = [undefined, null, 7, 'tools/call', [], [[]], [null], {}, call(7), call(null)];
    for (const body of [...bodies, { method: 'tools/call' }, { method: 'tools/call', params: 1 }]) {
      expect(requiredLevel(body, levels), JSON.stringify(body)).to.equal(undefined);
    }
  });
});

describe('authorize', () => {
  it('authorize allows levels up to that of the caller', () => {
    const caller = { level: 'admin', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => authorize(caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'allowed',
      'forbidden',
    ]);
  });

  it('authorize offers a step-up to levels up to that of the connector', () => {
    const caller = { level: 'analytics', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => authorize(caller, level))).to.deep.equal([
      'allowed',
      'step-up',
      'step-up',
      'forbidden',
    ]);
  });

  it('authorize never offers a step-up to a minted token', () => {
    const caller = { level: 'operations', ceiling: 'full', minted: true } as const;
    expect(LEVELS.map((level) => authorize(caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'forbidden',
      'forbidden',
    ]);
  });
});
