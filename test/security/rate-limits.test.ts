// What comes too often is told to wait, whoever pretends to be many is one, and whoever is connected never notices.
import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createConnector } from '../support/administrator.ts';
import {
  connect,
  obtainCode,
  redeem,
  REDIRECT_URI,
  registerClient,
} from '../support/connection.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { callTool, isLetIn } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh, type Client } from '../support/oauth.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import { until } from '../store/condition.ts';

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

async function statuses(requests: (() => Promise<Response>)[]): Promise<number[]> {
  const found: number[] = [];
  for (const request of requests) {
    const response = await request();
    await response.text();
    found.push(response.status);
  }
  return found;
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

const times = (count: number, request: (n: number) => Promise<Response>) =>
  Array.from({ length: count }, (_, n) => () => request(n));

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

describe('Being sent to sign in too often', () => {
  const system = useSystem({
    file: {
      limits: {
        authorizations: { perAddress: '5/10m' },
        signIns: { perAddress: '4/10m' },
      },
    },
  });

  it('DOS-02 is answered with a page that says to wait, and nothing is stored', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const { url } = authorizeUrl(server, await registerClient(server), { resource: link });
    const visit = () => fetch(url, { redirect: 'manual', headers: { accept: 'text/html' } });
    expect(await statuses(times(5, visit))).to.deep.equal(Array(5).fill(303));
    const before = await countStoredKeys(system());
    const response = await visit();
    expect(response.status).to.equal(429);
    expect(Number(response.headers.get('retry-after'))).to.be.within(1, 600);
    expect(response.headers.get('content-type')).to.match(/^text\/html/);
    expect(await response.text()).to.match(/many requests/i);
    expect(await countStoredKeys(system())).to.deep.equal(before);
  });

  it('DOS-02 holds for the pages of a sign-in and the answers of the identity provider too', async () => {
    const { auth } = system();
    const visit = (n: number) =>
      fetch(`${auth}/interaction/${n % 2 ? 'callback?state=x' : 'x'}`, { redirect: 'manual' });
    expect(await statuses(times(6, visit))).to.deep.equal([400, 400, 400, 400, 429, 429]);
  });
});

describe('Being sent to sign in by the page of connected apps', () => {
  const system = useSystem({ file: { limits: { authorizations: { perAddress: '5/10m' } } } });

  it('DOS-02 counts as being sent by an app, because as much is stored, and keeps out nobody who is signed in', async () => {
    const account = `${system().auth}/account`;
    const browser = openBrowser(system().origins);
    const people = requirePage(await browser.visit(account));
    expect((await browser.submit(people, { person: 'ada' })).kind).to.equal('page');
    const leave = (n: number) => fetch(account + (n % 2 ? '' : '/sign-in'), { redirect: 'manual' });
    expect(await statuses(times(6, leave))).to.deep.equal([303, 303, 303, 303, 429, 429]);
    expect(requirePage(await browser.visit(account)).status).to.equal(200);
  });
});

describe('Wrong tokens', () => {
  const system = useSystem({
    file: {
      limits: { wrongTokens: { perAddress: '5/10m' }, wrongSecrets: { perAddress: '1000/10m' } },
    },
  });

  async function tokenStatus(client: Client, server: Parameters<typeof refresh>[0], token: string) {
    const { status, body, headers } = await refresh(server, client, token);
    return { status, error: body.error, wait: headers.get('retry-after') };
  }

  it('DOS-04 DOS-03 of a client are told to wait, and its good ones, and those of others, are answered', async () => {
    const connector = await createConnector(system());
    const first = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { as: { client: first.client } });
    const other = await connect(system(), connector, { person: 'grace' });
    const { server, client } = first;
    for (let n = 0; n < 5; n += 1)
      expect((await tokenStatus(client, server, 'guess')).error).to.equal('invalid_grant');
    for (let n = 0; n < 20; n += 1) {
      const { status, error, wait } = await tokenStatus(client, server, `guess-${n}`);
      expect({ status, error }).to.deep.equal({ status: 429, error: 'temporarily_unavailable' });
      expect(Number(wait)).to.be.within(1, 600);
    }
    expect((await redeem(code)).status).to.equal(200);
    expect((await refresh(server, client, first.refreshToken)).status).to.equal(200);
    expect((await tokenStatus(other.client, server, 'guess')).error).to.equal('invalid_grant');
  });

  it('DOS-04 of clients that nobody knows count together', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const unknown = (n: number): Client => ({
      id: `unknown-client-${n}-0123`,
      method: 'none',
      redirectUri: REDIRECT_URI,
    });
    const found = [];
    for (let n = 0; n < 8; n += 1) found.push((await tokenStatus(unknown(n), server, 'x')).status);
    expect(found).to.deep.equal([401, 401, 401, 401, 401, 429, 429, 429]);
  });

  it('STK-06 DOS-04 at the resource server are told to wait, good ones and those that have ended are not', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    const ended = await connect(system(), connector, { person: 'grace' });
    await fetch(`${system().auth}/oauth/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: ended.refreshToken ?? '', client_id: ended.client.id }),
    });
    const forged = `${accessToken.slice(0, -8)}AAAAAAAA`;
    const ask = async (link: string, token: string) =>
      (await callTool(link, token, 'club_overview')).status;
    const found = [];
    for (let n = 0; n < 8; n += 1)
      found.push(await ask(n % 2 ? connector.link : `${system().resource}/mcp`, forged));
    expect(found).to.deep.equal([401, 401, 401, 401, 401, 429, 429, 429]);
    expect(await isLetIn(connector.link, accessToken)).to.equal(true);
    expect(await ask(connector.link, ended.accessToken)).to.equal(401);
  });
});

describe('Wrong secrets', () => {
  const system = useSystem({ file: { limits: { wrongSecrets: { perAddress: '5/2s' } } } });

  for (const method of ['client_secret_basic', 'client_secret_post'] as const) {
    it(`DOS-04 of a client are not heard after a few, with ${method}, until the time is over`, async () => {
      const { link } = await createConnector(system());
      const { server } = await discover(link);
      const client = await registerClient(server, method);
      const wrong = { ...client, secret: 'w'.repeat(43) };
      const ask = async (as: Client) => (await refresh(server, as, 'x')).status;
      // Counting may begin anew in between.
      await until('wrong ones are not heard', async () => (await ask(wrong)) === 429);
      const { status, body, headers } = await refresh(server, client, 'x');
      expect([status, body.error]).to.deep.equal([429, 'temporarily_unavailable']);
      expect(Number(headers.get('retry-after'))).to.be.within(1, 2);
      await until('the right one is heard again', async () => (await ask(client)) === 400);
    });
  }

  it('DOS-04 keep out nobody who uses the right one', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server, 'client_secret_basic');
    const wrong = { ...client, secret: 'w'.repeat(43) };
    expect((await refresh(server, client, 'x')).status).to.equal(400);
    await until('wrong ones are not heard', async () => {
      const { status } = await refresh(server, wrong, 'x');
      expect((await refresh(server, client, 'x')).body.error).to.equal('invalid_grant');
      return status === 429;
    });
    const { server: same } = await discover(link);
    const another = await registerClient(same, 'client_secret_basic');
    expect((await refresh(server, another, 'x')).body.error).to.equal('invalid_grant');
  });

  it('ADM-02 of the management API are not heard after a few, and keep out nobody who has the right one', async () => {
    const { management, managementKey } = system();
    const ask = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${management}/api/v1/connectors`, { headers });
      return { status: response.status, body: (await response.json()) as { error?: string } };
    };
    expect((await ask(managementKey)).status).to.equal(200);
    const { body } = await until('wrong ones are not heard', async () => {
      const answer = await ask('w'.repeat(40));
      return answer.status === 429 && answer;
    });
    expect(body.error).to.equal('temporarily_unavailable');
    expect((await ask(managementKey)).status).to.equal(200);
  });
});
