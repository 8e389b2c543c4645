import type { IncomingMessage } from 'node:http';
import { expect } from 'chai';
import { waitingSessions } from '../../../src/gateway/upstream/waiting-sessions.ts';
import { InBandError } from '../../../src/gateway/in-band-error.ts';
import { type ChainLog, openChainLog } from '../../audit/chain/chain-log.ts';
import { until } from '../../support/until.ts';
import { caller } from '../../support/upstream/filter-options.ts';

const IDS = {
  bind: (_kind: string, _caller: unknown, id: string) => id,
  unbind: (_kind: string, _caller: unknown, id: string) => id,
};
const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: { elicitation: { url: {} } },
  clientInfo: { name: 'app', version: '1' },
};

describe('A session that waits for the account of a person', () => {
  let log: ChainLog;
  before(async () => {
    log = await openChainLog('sqlite');
  });
  after(() => log.close());

  const open = (store = log.store) =>
    waitingSessions(store, IDS as Parameters<typeof waitingSessions>[1]);
  const find = (id: string) =>
    open().find(caller, { headers: { 'mcp-session-id': id } } as unknown as IncomingMessage);

  it('DOS-12 keeps what a session is opened with, and nothing else of the request', async () => {
    const id = await open().begin(caller, { ...INITIALIZE, filler: 'x'.repeat(100_000) });
    expect((await find(id))?.params).to.deep.equal(INITIALIZE);
  });

  it('an app with large icons begins one, and the icons are not kept', async () => {
    const clientInfo = { name: 'app', title: 'App', version: '1' };
    const icons = [{ src: `data:image/png;base64,${'A'.repeat(20_000)}` }];
    const more = { icons, websiteUrl: 'https://app.example' };
    const id = await open().begin(caller, {
      ...INITIALIZE,
      clientInfo: { ...clientInfo, ...more },
    });
    expect((await find(id))?.params).to.deep.equal({ ...INITIALIZE, clientInfo });
  });

  it('DOS-12 an app that says more of itself than 8 kB is refused', async () => {
    const large = { ...INITIALIZE, clientInfo: { name: 'x'.repeat(9000), version: '1' } };
    const refused = await open()
      .begin(caller, large)
      .catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(InBandError);
    expect(String(refused)).to.contain('8192 bytes');
  });

  it('DOS-12 a connection has twenty of them, and a further one ends the oldest', async () => {
    const of = (tokenId: string) => ({ ...caller, tokenId });
    const other = await open().begin(of('other'), INITIALIZE);
    const ids: string[] = [];
    for (let n = 0; n < 22; n += 1) ids.push(await open().begin(of('one'), INITIALIZE));
    const found = await Promise.all(ids.map(find));
    expect(found.map((each) => each !== undefined)).to.deep.equal([
      false,
      false,
      ...Array.from({ length: 20 }, () => true),
    ]);
    expect(await find(other)).to.not.equal(undefined);
  });

  it('DOS-12 a connection has no more of them if one is stored late', async () => {
    const slow = Promise.withResolvers<void>();
    let late: string | undefined;
    const store = Object.assign(Object.create(log.store), {
      async set(...given: Parameters<typeof log.store.set>) {
        late ??= given[0];
        if (given[0] === late) await slow.promise;
        return log.store.set(...given);
      },
    });
    const begin = () => open(store).begin({ ...caller, tokenId: 'late' }, INITIALIZE);
    const first = begin();
    await until('the first to be stored', () => late !== undefined);
    const ids = [];
    for (let n = 0; n < 20; n += 1) ids.push(await begin());
    slow.resolve();
    ids.push(await first);
    const found = await Promise.all(ids.map(find));
    expect(found.filter((each) => each !== undefined)).to.have.length(20);
  });
});
