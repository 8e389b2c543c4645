import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { REDIRECT_URI } from '../support/connection.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import { statuses, times } from '../support/repeated-requests.ts';

/** The header that a proxy adds for a client at this address. */
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

async function expectRateLimited(response: Response, seconds: number): Promise<void> {
  expect(response.status).to.equal(429);
  expect(response.headers.get('content-type')).to.match(/^application\/json/);
  expect(response.headers.get('cache-control')).to.equal('no-store');
  expect(Number(response.headers.get('retry-after'))).to.be.within(1, seconds);
  const body = (await response.json()) as Record<string, string>;
  expect(body.error).to.equal('temporarily_unavailable');
  expect(body.error_description).to.match(/try again in \d+ s/);
}

const PER_ADDRESS = {
  file: {
    proxies: 1,
    limits: {
      registrations: { perAddress: '5/10m', inAll: '5000/10m' },
      sharedNetworks: [],
    },
  },
};

onEachStore(
  'The limits of registrations',
  (system) => {
    it('DCR-03 DOS-03 too many registrations from one address get 429 and store nothing', async () => {
      const register = () => tryToRegister(system(), '203.0.113.1');
      expect(await statuses(times(5, register))).to.deep.equal(Array(5).fill(201));
      const before = await countStoredKeys(system());
      await expectRateLimited(await register(), 600);
      expect(await statuses(times(20, register))).to.deep.equal(Array(20).fill(429));
      expect(await countStoredKeys(system())).to.deep.equal(before);
      const answer = await tryToRegister(system(), '203.0.113.2');
      expect(answer.status).to.equal(201);
    });
  },
  PER_ADDRESS,
);

describe('The limits of registrations from one address', () => {
  const system = useSystem(PER_ADDRESS);

  it('DCR-07 registrations by web pages do not use up the limit of programs and loopback pages at the same address', async () => {
    const page = (origin: string) => () =>
      tryToRegister(system(), '203.0.113.7', { origin, 'sec-fetch-site': 'cross-site' });
    expect(await statuses(times(5, page('https://evil.example')))).to.deep.equal(
      Array(5).fill(201),
    );
    for (const origin of ['https://evil.example', 'https://other.example', 'null'])
      await expectRateLimited(await page(origin)(), 600);
    const program = () => tryToRegister(system(), '203.0.113.7');
    const tool = () => tryToRegister(system(), '203.0.113.7', { origin: 'http://localhost:6274' });
    expect(await statuses([program, tool, program, tool, program])).to.deep.equal(
      Array(5).fill(201),
    );
    await expectRateLimited(await program(), 600);
  });

  it('DCR-07 requests that a page may send without a preflight are refused and not counted', async () => {
    const unasked = (type: string) => () =>
      tryToRegister(system(), '203.0.113.8', { 'content-type': type });
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'])
      expect(await statuses(times(6, unasked(type))), type).to.deep.equal(Array(6).fill(400));
    const register = () => tryToRegister(system(), '203.0.113.8');
    expect(await statuses(times(5, register))).to.deep.equal(Array(5).fill(201));
  });

  it('HDR-02 forged headers, address spellings, ports and addresses of one /64 do not raise the limit', async () => {
    const sent: [string, (n: number) => string][] = [
      ['198.51.100.1', (n) => `10.0.0.${n}, 192.0.2.${n}, 198.51.100.1`],
      ['198.51.100.2', (n) => `198.51.100.2:${5000 + n}`],
      ['198.51.100.3', (n) => ['::ffff:198.51.100.3', '198.51.100.3'][n % 2] ?? ''],
      ['2001:db8:1:1::1', () => `2001:db8:1:1:${randomBytes(2).toString('hex')}::1`],
      ['2001:db8:1:2::1', (n) => ['2001:DB8:1:2::a', '2001:0db8:0001:0002:0::b'][n % 2] ?? ''],
      ['invalid', (n) => `invalid-${n}`],
    ];
    for (const [name, address] of sent) {
      const found = await statuses(times(8, (n) => tryToRegister(system(), address(n))));
      expect(found, name).to.deep.equal([...Array(5).fill(201), ...Array(3).fill(429)]);
    }
  });
});

describe('The limit of registrations in all', () => {
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

  it('DCR-03 at the limit in all, addresses that registered get 429, and new addresses may still register', async () => {
    const first = times(12, (n) => tryToRegister(system(), `203.0.113.${n % 4}`));
    expect(await statuses(first)).to.deep.equal(Array(12).fill(201));
    const again = times(4, (n) => tryToRegister(system(), `203.0.113.${n}`));
    expect(await statuses(again)).to.deep.equal(Array(4).fill(429));
    const others = times(108, (n) => tryToRegister(system(), `198.51.100.${n}`));
    const found = await statuses(others);
    expect(found).to.deep.equal([...Array(104).fill(201), ...Array(4).fill(429)]);
  });

  it('DCR-03 shared networks have their own limit of registrations', async () => {
    const hosted = times(15, (n) =>
      tryToRegister(system(), n % 2 ? '160.79.106.10' : '2001:db8:5::1'),
    );
    expect(await statuses(hosted)).to.deep.equal([...Array(12).fill(201), ...Array(3).fill(429)]);
  });
});

describe('The limits of registrations from IPv6 networks', () => {
  const system = useSystem({
    file: { proxies: 1, limits: { registrations: { perAddress: '5/10m', inAll: '100/10m' } } },
  });

  it('DCR-13 a /56 may register four times, and a /48 eight times as often as one address', async () => {
    const site = times(25, (n) => tryToRegister(system(), `2001:db8:1:10${n + 10}::1`));
    expect(await statuses(site)).to.deep.equal([...Array(20).fill(201), ...Array(5).fill(429)]);
    const others = times(30, (n) => tryToRegister(system(), `2001:db8:1:${n + 10}10::1`));
    // The first refused request of the /56 counts for the /48 too.
    expect((await statuses(others)).filter((status) => status === 201)).to.have.length(19);
    const next = await statuses(times(5, () => tryToRegister(system(), '2001:db8:2:1::1')));
    expect(next).to.deep.equal(Array(5).fill(201));
  });
});

describe('The limit of registrations during a flood from many networks', () => {
  const system = useSystem({
    file: { proxies: 1, limits: { registrations: { perAddress: '5/10m', inAll: '10/10m' } } },
  });

  it('DCR-13 networks without a part in it can still register', async () => {
    const flood = await statuses(
      times(120, (n) => tryToRegister(system(), `2001:db8:${(n + 1).toString(16)}::1`)),
    );
    expect(flood).to.deep.equal([...Array(100).fill(201), ...Array(20).fill(429)]);
    const people = ['198.51.100.7', '203.0.113.9', '2a00:1450:4001::5'];
    const register = (address: string) => () => tryToRegister(system(), address);
    expect(await statuses(people.map(register))).to.deep.equal([201, 201, 201]);
    const more = await statuses(times(20, (n) => tryToRegister(system(), `10.${n}.0.1`)));
    expect(more).to.deep.equal([...Array(7).fill(201), ...Array(13).fill(429)]);
  });
});

describe('The limit of registrations by web pages', () => {
  const system = useSystem({
    file: {
      proxies: 1,
      limits: { registrations: { perAddress: '5/10m', inAll: '10/10m' } },
    },
  });

  it('DCR-07 web pages use up their own limit and not the limit of programs', async () => {
    const origin = 'https://evil.example';
    const visitors = times(30, (n) => tryToRegister(system(), `192.0.2.${n}`, { origin }));
    const found = await statuses(visitors);
    expect(found).to.deep.equal([...Array(20).fill(201), ...Array(10).fill(429)]);
    const programs = times(10, (n) => tryToRegister(system(), `192.0.2.${n % 2}`));
    expect(await statuses(programs)).to.deep.equal(Array(10).fill(201));
  });
});

describe('The limit of registrations while the store is stalled', () => {
  const system = useSystem({
    store: 'redis',
    file: { proxies: 1, limits: { registrations: { perAddress: '5/10m' } } },
  });

  it('DOS-03 registrations are still limited, and refused, while the store does not answer', async () => {
    system().signalStore('SIGSTOP');
    try {
      const sent = times(8, () => tryToRegister(system(), '192.0.2.1')).map((request) => request());
      const found = (await Promise.all(sent)).map(({ status }) => status);
      expect(found.toSorted()).to.deep.equal([...Array(3).fill(429), ...Array(5).fill(503)]);
    } finally {
      system().signalStore('SIGCONT');
    }
  });
});
