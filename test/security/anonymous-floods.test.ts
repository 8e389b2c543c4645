// Floods of anonymous requests. The long run sends a hundred times as many or more and takes minutes.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { flood, startFlood } from '../support/anonymous-flood.ts';
import { openBrowser } from '../support/browser.ts';
import { connect, registerClient, requestAuthorization } from '../support/connection.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const MAX_BYTES = 40_000_000;
const MAX_BYTES_PER_REQUEST = 1000;
/** Registered, redirected to sign in, or rate limited. On a busy machine a store command can time out. */
const EXPECTED_STATUS = /^(201|303|429|503)$/;
const [AUTHORIZATIONS, REGISTRATIONS, CONNECTIONS] = SOAK ? [100_000, 10_000, 60] : [60, 6, 2];
const UNUSED = SOAK ? 10_000 : 20;
/** Requests per second. A core of a busy machine can still do other work. */
const PACE = SOAK ? 250 : 100;
const UNTHROTTLED = 100_000;

/** The production limits. Settings override the test defaults. */
const LIMITS = {
  registrations: { perAddress: '30/10m', inAll: '500/10m' },
  authorizations: { perAddress: '300/10m', inAll: '20000/10m' },
  signIns: { perAddress: '2000/10m', inAll: '100000/10m' },
};

/** Without counters, counts of the overview, and the audit log, which keeps registrations up to a limit of its own. */
async function storedBytes({ storeAddress }: System): Promise<number> {
  const stored = await readStoredBytes(storeAddress);
  const records = stored.filter(
    ({ name }) =>
      !/^((order|entries|blocks|sent):\{)?(activity|attempts?(-[a-z-]+)?|audit(-[a-z-]+)?|limit):/.test(
        name,
      ),
  );
  return records.reduce((sum, { name, bytes }) => sum + name.length + bytes.length, 0);
}

function median(times: number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
}

/** Durations in milliseconds, from authorization request to tokens, measured while `continues` is true. */
async function connectionTimes(
  connectOnce: () => Promise<unknown>,
  continues: (done: number) => boolean,
) {
  const times: number[] = [];
  while (continues(times.length)) {
    const started = performance.now();
    await connectOnce();
    times.push(performance.now() - started);
  }
  return times;
}

onEachStore(
  'A flood of anonymous requests',
  (system) => {
    it('DOS-02 DCR-03 a flood grows the store by at most 1000 bytes per request and 40 MB in all', async function () {
      this.timeout(SOAK ? 1_800_000 : 120_000);
      const { link } = await createConnector(system());
      const { url } = await requestAuthorization(system(), { link });
      const before = await storedBytes(system());
      const statuses = await flood({
        authorizations: AUTHORIZATIONS,
        registrations: REGISTRATIONS,
        authorizeUrl: url,
        requestsPerSecond: UNTHROTTLED,
      });
      expect(Object.keys(statuses)).to.include.members(SOAK ? ['429'] : ['201', '303']);
      for (const status of Object.keys(statuses)) expect(status).to.match(EXPECTED_STATUS);
      const sent = AUTHORIZATIONS + REGISTRATIONS;
      const grown = (await storedBytes(system())) - before;
      expect(grown).to.be.below(Math.min(MAX_BYTES, sent * MAX_BYTES_PER_REQUEST));
      const { 503: late = 0 } = statuses;
      if (SOAK) expect(late, 'store timeouts').to.be.at.most(sent / 1000);
      recordSoak({
        what: `a flood of ${sent} anonymous requests, on ${new URL(system().storeAddress).protocol}`,
        held: `the store grew by ${grown} bytes, ${late} store timeouts`,
      });
    });
  },
  { file: { proxies: 1, limits: LIMITS } },
);

/** A different IP address for each person. */
function addressOf(person: number): string {
  return `10.2.${Math.floor(person / 250)}.${person % 250}`;
}

describe('Authorizations during a flood of anonymous requests', () => {
  const system = useSystem({ store: 'redis', file: { proxies: 1, limits: LIMITS } });

  const claim = SOAK
    ? 'DOS-02 authorizations during a flood succeed and take at most twice the usual time'
    : 'DOS-02 authorizations during a flood succeed';

  it(claim, async function () {
    this.timeout(SOAK ? 1_800_000 : 120_000);
    const connector = await createConnector(system());
    const { url, client } = await requestAuthorization(system(), connector);
    let people = 0;
    const connectOnce = () => {
      people += 1;
      const browser = openBrowser(system().origins, addressOf(people));
      return connect(system(), connector, { as: { client, browser } });
    };
    const withoutFlood = (count: number) => connectionTimes(connectOnce, (done) => done < count);
    const before = SOAK ? median((await withoutFlood(CONNECTIONS)).slice(3)) : 0;
    let isOver = false;
    const { finished } = await startFlood({
      authorizations: AUTHORIZATIONS,
      registrations: REGISTRATIONS,
      authorizeUrl: url,
      requestsPerSecond: PACE,
    });
    const flooding = finished.finally(() => (isOver = true));
    const meanwhile = await connectionTimes(
      connectOnce,
      (done) => !isOver || (!SOAK && done < CONNECTIONS),
    );
    await flooding;
    if (!SOAK) return;
    // The machine may have become busier meanwhile.
    const usual = Math.max(before, median(await withoutFlood(CONNECTIONS)));
    expect(meanwhile.length).to.be.above(CONNECTIONS / 2);
    expect(median(meanwhile)).to.be.below(2 * usual);
    recordSoak({
      what: `${meanwhile.length} authorizations during a flood of ${PACE} requests per second`,
      held: `all succeeded, median ${median(meanwhile).toFixed(0)} ms instead of ${usual.toFixed(0)} ms`,
    });
  });
});

onEachStore(
  'Unused registrations',
  (system) => {
    it('DCR-03 unused registrations leave nothing but audit items and attempts in the store after they expire', async () => {
      const { link } = await createConnector(system());
      const before = await storedBytes(system());
      const { url, server } = await requestAuthorization(system(), { link });
      const registerUnused = (registrations: number) =>
        flood({
          authorizations: 0,
          registrations,
          authorizeUrl: url,
          requestsPerSecond: UNTHROTTLED,
        });
      expect(await registerUnused(UNUSED)).to.deep.equal({ 201: UNUSED });
      // Earlier registrations may have expired.
      await until('a registration to be stored', async () => {
        await registerClient(server);
        return (await countStoredKeys(system())).client !== undefined;
      });
      const allExpired = async () =>
        (await countStoredKeys(system())).client === undefined &&
        (await storedBytes(system())) <= before;
      await until('all registrations to expire', allExpired);
      recordSoak({
        what: `${UNUSED} unused registrations, on ${new URL(system().storeAddress).protocol}`,
        held: 'all expired, and only audit items and attempts are left',
      });
    });
  },
  {
    file: {
      proxies: 1,
      lifetimes: { unusedClient: '1s' },
      limits: { registrations: { perAddress: '10000/1s', inAll: '10000/1s' } },
    },
  },
);
