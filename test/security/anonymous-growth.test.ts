// What strangers leave behind is bounded and goes away by itself, and who comes meanwhile notices nothing (SOAK: all of it, for minutes).
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { flood, startFlood } from '../support/anonymous-flood.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import { until } from '../store/condition.ts';

/** However many requests come from a thousand addresses, with the limits of production. */
const MOST_BYTES = 40_000_000;
const MOST_BYTES_EACH = 1000;
/** Accepted, redirected to sign in, or told to wait: by the limits, or now and then on a busy machine for the store. */
const TOLD = /^(201|303|429|503)$/;
const [AUTHORIZATIONS, REGISTRATIONS, FLOWS] = SOAK ? [100_000, 10_000, 60] : [1000, 100, 10];
/** Requests in a second: what leaves a core of a busy machine some room. */
const PACE = SOAK ? 250 : 150;
const AS_FAST_AS_CAN_BE = 100_000;

/** As in production; what is set holds as it is. */
const LIMITS = {
  registrations: { perAddress: '30/10m', inAll: '500/10m' },
  authorizations: { perAddress: '300/10m', inAll: '20000/10m' },
  signIns: { perAddress: '2000/10m', inAll: '100000/10m' },
};

async function storedBytes({ storeAddress }: System): Promise<number> {
  const records = await readStoredBytes(storeAddress);
  return records.reduce((sum, { name, bytes }) => sum + name.length + bytes.length, 0);
}

function median(times: number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
}

/** Of whole flows, from authorization to tokens, in milliseconds, as long as it goes on. */
async function flowTimes(connectOnce: () => Promise<unknown>, goesOn: (done: number) => boolean) {
  const times: number[] = [];
  while (goesOn(times.length)) {
    const started = performance.now();
    await connectOnce();
    times.push(performance.now() - started);
  }
  return times;
}

onEachStore(
  'A flood of anonymous requests',
  (system) => {
    it('DOS-02 DCR-03 grows the store by less than is said', async function () {
      this.timeout(SOAK ? 1_800_000 : 120_000);
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const { url } = authorizeUrl(server, await registerClient(server), { resource: link });
      const before = await storedBytes(system());
      const statuses = await flood({
        authorizations: AUTHORIZATIONS,
        registrations: REGISTRATIONS,
        authorizeUrl: url,
        requestsPerSecond: AS_FAST_AS_CAN_BE,
      });
      expect(Object.keys(statuses)).to.include.members(SOAK ? ['429'] : ['201', '303']);
      const { 503: late = 0 } = statuses;
      expect(late, 'a store that is late').to.be.at.most((AUTHORIZATIONS + REGISTRATIONS) / 1000);
      for (const status of Object.keys(statuses)) expect(status).to.match(TOLD);
      expect((await storedBytes(system())) - before).to.be.below(
        Math.min(MOST_BYTES, (AUTHORIZATIONS + REGISTRATIONS) * MOST_BYTES_EACH),
      );
    });
  },
  { file: { proxies: 1, limits: LIMITS } },
);

/** Of a person: each is somewhere else. */
function addressOf(person: number): string {
  return `10.2.${Math.floor(person / 250)}.${person % 250}`;
}

describe('During a flood of anonymous requests', () => {
  const system = useSystem({ store: 'redis', file: { proxies: 1, limits: LIMITS } });

  const claim = SOAK
    ? 'DOS-02 ordinary flows succeed and take at most twice as long as usually'
    : 'DOS-02 ordinary flows succeed';

  it(claim, async function () {
    this.timeout(SOAK ? 1_800_000 : 120_000);
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    let people = 0;
    const connectOnce = () => {
      people += 1;
      const browser = openBrowser(system().origins, addressOf(people));
      return connect(system(), connector, { as: { client, browser } });
    };
    const quiet = (count: number) => flowTimes(connectOnce, (done) => done < count);
    await quiet(3);
    const before = median(await quiet(FLOWS));
    let isOver = false;
    const { finished } = await startFlood({
      authorizations: AUTHORIZATIONS,
      registrations: REGISTRATIONS,
      authorizeUrl: url,
      requestsPerSecond: PACE,
    });
    const flooding = finished.finally(() => (isOver = true));
    const meanwhile = await flowTimes(connectOnce, () => !isOver);
    await flooding;
    // The machine may have become busier with other things.
    const usual = Math.max(before, median(await quiet(FLOWS)));
    expect(meanwhile.length).to.be.above(FLOWS / 2);
    // Other tests that run at the same time would decide this one.
    if (SOAK) expect(median(meanwhile)).to.be.below(2 * usual);
  });
});

onEachStore(
  'Registrations that nobody uses',
  (system) => {
    it('DCR-03 leave nothing when their time is over', async function () {
      this.timeout(60_000);
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const { url } = authorizeUrl(server, await registerClient(server), { resource: link });
      const before = await storedBytes(system());
      const count = SOAK ? 10_000 : 400;
      const found = await flood({
        authorizations: 0,
        registrations: count,
        authorizeUrl: url,
        requestsPerSecond: AS_FAST_AS_CAN_BE,
      });
      expect(found).to.deep.equal({ 201: count });
      expect((await countStoredKeys(system())).client).to.be.above(0);
      const isOver = async () =>
        (await countStoredKeys(system())).client === undefined &&
        (await storedBytes(system())) <= before;
      await until('all are gone', isOver, 30);
    });
  },
  {
    file: {
      proxies: 1,
      lifetimes: { unusedClient: '2s' },
      limits: { registrations: { perAddress: '10000/2s', inAll: '10000/2s' } },
    },
  },
);
