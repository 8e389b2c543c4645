import { expect } from 'chai';
import type { Message } from '../../../src/gateway/json-rpc.ts';
import { parameterHeaders } from '../../../src/gateway/upstream/headers.ts';

const callWith = (given: object): Message => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'whoami', arguments: given },
});

/** Parses like the body of a call: an integer that a double cannot represent keeps its digits. */
function read(json: string): unknown {
  const { rawJSON } = JSON as typeof JSON & { rawJSON: (text: string) => unknown };
  return /^\d{16,}$/.test(json) ? rawJSON(json) : JSON.parse(json);
}

describe('Mcp-Param-* headers', () => {
  for (const [json, right, wrong] of [
    ['7', ['7', '7.0'], ['07', '0x7', '7e0', '8', ' 7', '', '7.00000000000000001']],
    ['10', ['10'], ['010', '12', '1e1']],
    ['0.0000001', ['0.0000001', '1e-7'], ['1e-8', '0']],
    ['0.30000000000000004', ['0.30000000000000004'], ['0.30000000000000005']],
    ['9007199254740992.0', ['9007199254740992'], ['9007199254740993']],
    ['1e400', [], ['Infinity', 'null']],
    [
      '12345678901234567890',
      ['12345678901234567890'],
      ['12345678901234567891', '12345678901234567000'],
    ],
    ['{"rawJSON":"7"}', [], ['7', '{"rawJSON":"7"}', '[object Object]']],
    ['["7"]', [], ['7']],
  ] as const)
    it(`UPS-06 the value ${json} matches ${right.length > 0 ? `only the header ${right.join(' or ')}` : 'no header'}`, () => {
      const { verified } = parameterHeaders();
      const call = callWith({ value: read(json) });
      const header = (text: string) => ({ 'mcp-param-value': text });
      for (const text of right) expect(verified(header(text), call)).to.deep.equal(header(text));
      for (const text of wrong)
        expect(() => verified(header(text), call), text).to.throw('differs from the body');
    });
});
