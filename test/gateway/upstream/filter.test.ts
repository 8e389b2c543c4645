import { expect } from 'chai';
import { filterMessage } from '../../../src/gateway/upstream/filter.ts';
import { caller, filterOptions } from '../../support/upstream/filter-options.ts';

describe('The filter of what an MCP server sends', () => {
  const options = filterOptions(new Set(), async () => new Set());

  for (const method of ['toString', 'constructor', '__proto__', 'hasOwnProperty'])
    it(`UPS-30 a notification named ${method} is as any that is not known`, async () => {
      const message = { jsonrpc: '2.0', method, params: {} };
      expect(await filterMessage(options, message)).to.equal(message);
      const lower = { ...options, caller: { ...caller, level: 'analytics', ceiling: 'analytics' } };
      expect(await filterMessage(lower as typeof options, message)).to.equal(undefined);
    });
});
