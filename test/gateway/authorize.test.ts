import { expect } from 'chai';
import { DEFAULT_LEVELS, LEVELS } from '../support/levels.ts';
import type { Level } from '../../src/permission-levels.ts';
import { authorize, highestRequired } from '../../src/gateway/authorize.ts';
import { requiredBy } from '../../src/development/sample/mcp-server.ts';

const toolLevels = new Map<string, Level>([
  ['count', 'analytics'],
  ['names', 'operations'],
  ['accounts', 'full'],
]);

function call(name: unknown) {
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } };
}

function requiredLevel(levels: typeof DEFAULT_LEVELS, body: unknown, tools: typeof toolLevels) {
  const messages: unknown[] = Array.isArray(body) ? body : [body];
  return highestRequired(
    levels,
    messages.map((message) => requiredBy(message, tools)),
  );
}

describe('the required level of a body', () => {
  it('the required level is that of the called tool', () => {
    expect(requiredLevel(DEFAULT_LEVELS, call('names'), toolLevels)).to.deep.equal({
      level: 'operations',
      tool: 'names',
    });
  });

  it('the required level is the highest in a batch, in any position', () => {
    const needed = { level: 'full', tool: 'accounts' };
    expect(
      requiredLevel(DEFAULT_LEVELS, [call('count'), call('accounts'), call('names')], toolLevels),
    ).to.deep.equal(needed);
    expect(
      requiredLevel(DEFAULT_LEVELS, [call('accounts'), call('count')], toolLevels),
    ).to.deep.equal(needed);
  });

  it('the required level is undefined for other methods, unknown tools and names of Object.prototype', () => {
    expect(
      requiredLevel(DEFAULT_LEVELS, { ...call('names'), method: 'tools/list' }, toolLevels),
    ).to.equal(undefined);
    expect(requiredLevel(DEFAULT_LEVELS, call('elsewhere'), toolLevels)).to.equal(undefined);
    expect(requiredLevel(DEFAULT_LEVELS, call('__proto__'), toolLevels)).to.equal(undefined);
  });

  it('the required level is undefined for bodies that are not JSON-RPC', () => {
    const bodies = [undefined, null, 7, 'tools/call', [], [[]], [null], {}, call(7), call(null)];
    for (const body of [...bodies, { method: 'tools/call' }, { method: 'tools/call', params: 1 }]) {
      expect(requiredLevel(DEFAULT_LEVELS, body, toolLevels), JSON.stringify(body)).to.equal(
        undefined,
      );
    }
  });
});

describe('authorize', () => {
  it('RSV-07 authorize allows levels up to that of the caller', () => {
    const caller = { level: 'admin', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => authorize(DEFAULT_LEVELS, caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'allowed',
      'forbidden',
    ]);
  });

  it('authorize offers a step-up to levels up to that of the connector', () => {
    const caller = { level: 'analytics', ceiling: 'admin', minted: false } as const;
    expect(LEVELS.map((level) => authorize(DEFAULT_LEVELS, caller, level))).to.deep.equal([
      'allowed',
      'step-up',
      'step-up',
      'forbidden',
    ]);
  });

  it('authorize never offers a step-up to a minted token', () => {
    const caller = { level: 'operations', ceiling: 'full', minted: true } as const;
    expect(LEVELS.map((level) => authorize(DEFAULT_LEVELS, caller, level))).to.deep.equal([
      'allowed',
      'allowed',
      'forbidden',
      'forbidden',
    ]);
  });
});
