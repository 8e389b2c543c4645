import { expect } from 'chai';
import { callerReadings } from '../../../src/gateway/upstream/caller-readings.ts';
import { caller, filterOptions } from '../../support/upstream/filter-options.ts';

type Given = Parameters<typeof callerReadings>;

const TOKEN = 'at-ada-0123456789';

describe('The tools that Gatehouse reads with the credential of a person', () => {
  it('CRD-26 have no credential that the server repeats', async () => {
    const seen: unknown[] = [];
    const tool = { name: 'search', title: `For ${TOKEN}`, _meta: { [TOKEN]: [`Bearer ${TOKEN}`] } };
    const { rules } = filterOptions(new Set(), async () => new Set());
    const proxy = {
      upstream: { id: 'one', headers: {} },
      credentials: {
        of: async () => ({
          header: { name: 'authorization', value: `Bearer ${TOKEN}` },
          token: TOKEN,
          epoch: 'one',
        }),
        replaced: new Set(),
      },
      holds: { shown: async (list: unknown) => void seen.push(list) },
      callerHeaders: async () => ({}),
      rules: () => ({ ...rules(), hasCatalog: true, isListed: () => false }),
    };
    const discovery = {
      listFor: async () => [[tool]],
      observe: async (tools: unknown) => void seen.push(tools),
    };
    const services = { logger: { debug: () => undefined }, now: () => 0 };
    const readFor = callerReadings(
      proxy as unknown as Given[0],
      discovery as unknown as Given[1],
      services as unknown as Given[2],
    );
    const person = { ...caller, accountId: 'A'.repeat(27) };
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'unknown' } };
    await readFor({ caller: person, body });
    expect(seen).to.have.length(2);
    expect(JSON.stringify(seen)).to.contain('search').and.not.contain(TOKEN);
  });
});
