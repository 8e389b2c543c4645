// Who registers too often is told to wait, and whoever pretends to be many is one.
import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { REDIRECT_URI } from '../support/connection.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import { statuses, times } from '../support/repeated-requests.ts';

/** As a proxy passes on what a client at this address sent. */
const from = (address: string) => ({ 'x-forwarded-for': address });

function tryToRegister(
  system: System,
  address: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${system.auth}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...from(address), ...headers },
    body: JSON.stringify({
      redirect_uris: [REDIRECT_URI],
      token_endpoint_auth_method: 'none',
    }),
  });
}

async function expectToldToWait(response: Response, seconds: number): Promise<void> {
  expect(response.status).to.equal(429);
  expect(response.headers.get('content-type')).to.match(/^application\/json/);
  expect(response.headers.get('cache-control')).to.equal('no-store');
  expect(Number(response.headers.get('retry-after'))).to.be.within(1, seconds);
  const body = (await response.json()) as Record<string, string>;
  expect(body.error).to.equal('temporarily_unavailable');
  expect(body.error_description).to.match(/try again in \d+ s/);
}

onEachStore(
  'Registering too often',
  (system) => {
    it('DCR-03 DOS-03 is told to wait, by address, and stores nothing', async () => {
      const register = () => tryToRegister(system(), '203.0.113.1');
      expect(await statuses(times(5, register))).to.deep.equal(Array(5).fill(201));
      const before = await countStoredKeys(system());
      await expectToldToWait(await register(), 600);
      expect(await statuses(times(20, register))).to.deep.equal(Array(20).fill(429));
      expect(await countStoredKeys(system())).to.deep.equal(before);
      const answer = await tryToRegister(system(), '203.0.113.2');
      expect(answer.status).to.equal(201);
    });

    it('DCR-07 by pages that somebody visits keeps out no program and no page of their computer', async () => {
      const page = (origin: string) => () =>
        tryToRegister(system(), '203.0.113.7', { origin, 'sec-fetch-site': 'cross-site' });
      expect(await statuses(times(5, page('https://evil.example')))).to.deep.equal(
        Array(5).fill(201),
      );
      for (const origin of ['https://evil.example', 'https://other.example', 'null'])
        await expectToldToWait(await page(origin)(), 600);
      const program = () => tryToRegister(system(), '203.0.113.7');
      const tool = () =>
        tryToRegister(system(), '203.0.113.7', { origin: 'http://localhost:6274' });
      expect(await statuses([program, tool, program, tool, program])).to.deep.equal(
        Array(5).fill(201),
      );
      await expectToldToWait(await program(), 600);
    });

    it('DCR-07 with what a page may send unasked counts for nothing', async () => {
      const unasked = (type: string) => () =>
        tryToRegister(system(), '203.0.113.8', { 'content-type': type });
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])
        expect(await statuses(times(6, unasked(type))), type).to.deep.equal(Array(6).fill(400));
      const register = () => tryToRegister(system(), '203.0.113.8');
      expect(await statuses(times(5, register))).to.deep.equal(Array(5).fill(201));
    });

    it('HDR-02 is not helped by headers, spellings, ports or addresses of one network', async () => {
      const sent: [string, (n: number) => string][] = [
        ['198.51.100.1', (n) => `10.0.0.${n}, 192.0.2.${n}, 198.51.100.1`],
        ['198.51.100.2', (n) => `198.51.100.2:${5000 + n}`],
        ['198.51.100.3', (n) => ['::ffff:198.51.100.3', '198.51.100.3'][n % 2] ?? ''],
        ['2001:db8:1:1::1', () => `2001:db8:1:1:${randomBytes(2).toString('hex')}::1`],
        ['2001:db8:1:2::1', (n) => ['2001:DB8:1:2::a', '2001:0db8:0001:0002:0::b'][n % 2] ?? ''],
        ['nonsense', (n) => `nonsense-${n}`],
      ];
      for (const [who, address] of sent) {
        const found = await statuses(times(8, (n) => tryToRegister(system(), address(n))));
        expect(found, who).to.deep.equal([...Array(5).fill(201), ...Array(3).fill(429)]);
      }
    });
  },
  {
    file: {
      proxies: 1,
      limits: {
        registrations: { perAddress: '5/10m', inAll: '5000/10m' },
        sharedNetworks: [],
      },
    },
  },
);

describe('Many who register, each a few times', () => {
  const system = useSystem({
    store: 'redis',
    file: {
      proxies: 1,
      limits: {
        registrations: { perAddress: '5/10m', inAll: '12/10m' },
        sharedNetworks: ['160.79.104.0/21', '2001:db8:5::/48'],
      },
    },
  });

  it('DCR-03 are told to wait when they are too many, and others still get in', async () => {
    const first = times(12, (n) => tryToRegister(system(), `203.0.113.${n % 4}`));
    expect(await statuses(first)).to.deep.equal(Array(12).fill(201));
    const again = times(4, (n) => tryToRegister(system(), `203.0.113.${n}`));
    expect(await statuses(again)).to.deep.equal(Array(4).fill(429));
    const others = times(108, (n) => tryToRegister(system(), `198.51.100.${n}`));
    const found = await statuses(others);
    expect(found).to.deep.equal([...Array(104).fill(201), ...Array(4).fill(429)]);
  });

  it('DCR-03 from networks that many people share have room of their own', async () => {
    const hosted = times(15, (n) =>
      tryToRegister(system(), n % 2 ? '160.79.106.10' : '2001:db8:5::1'),
    );
    expect(await statuses(hosted)).to.deep.equal([...Array(12).fill(201), ...Array(3).fill(429)]);
  });
});

describe('Pages that have their visitors register', () => {
  const system = useSystem({
    file: {
      proxies: 1,
      limits: { registrations: { perAddress: '5/10m', inAll: '10/10m' } },
    },
  });

  it('DCR-07 are told to wait long before programs are', async () => {
    const origin = 'https://evil.example';
    const visitors = times(30, (n) => tryToRegister(system(), `192.0.2.${n}`, { origin }));
    const found = await statuses(visitors);
    expect(found).to.deep.equal([...Array(20).fill(201), ...Array(10).fill(429)]);
    const programs = times(10, (n) => tryToRegister(system(), `192.0.2.${n % 2}`));
    expect(await statuses(programs)).to.deep.equal(Array(10).fill(201));
  });
});

describe('Registering while the store is stalled', () => {
  const system = useSystem({
    store: 'redis',
    file: { proxies: 1, limits: { registrations: { perAddress: '5/10m' } } },
  });

  it('DOS-03 is still limited, and is answered in time', async () => {
    system().signalStore('SIGSTOP');
    try {
      const found = await Promise.all(
        times(8, () => tryToRegister(system(), '192.0.2.1')).map(async (request) => {
          const started = performance.now();
          const { status } = await request();
          expect(performance.now() - started).to.be.below(3000);
          return status;
        }),
      );
      expect(found.toSorted()).to.deep.equal([...Array(3).fill(429), ...Array(5).fill(503)]);
    } finally {
      system().signalStore('SIGCONT');
    }
  });
});
