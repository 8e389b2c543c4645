import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { ApiResponse } from '../../src/management/api/operations.ts';
import type { Token } from '../../src/management/resources/token.ts';
import { MINTED_TOKENS_CHANNEL } from '../../src/links/minted-tokens.ts';
import {
  AUTH_URL,
  type ManagementHost,
  openManagementHost,
  request,
  RESOURCE_URL,
} from './management-host.ts';

const TOKENS = '/api/v1/tokens';
const GOOD = { name: 'Nightly report', level: 'operations' };
const DAY = 86_400;

describe('minted tokens over the management API', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function mint(body: object = GOOD): Promise<ApiResponse<'mintToken'>> {
    const answer = await request(host, 'POST', TOKENS, { body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    return answer.body as ApiResponse<'mintToken'>;
  }

  async function list(query = ''): Promise<{ items: Token[]; next?: string }> {
    const { status, body } = await request(host, 'GET', `${TOKENS}${query}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body as { items: Token[]; next?: string };
  }

  const namesIn = ({ items }: { items: Token[] }) => items.map(({ name }) => name);
  const secondsFromNow = (time = '') => Date.parse(time) / 1000 - host.now();

  it('the response to minting has the properties of the token and is not cached', async () => {
    const { status, headers, body } = await request(host, 'POST', TOKENS, { body: GOOD });
    expect(status).to.equal(201);
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(body).to.have.all.keys('id', 'name', 'level', 'token', 'expiresAt').and.include(GOOD);
    expect(body['id']).to.match(/^[0-9a-f]{32}$/);
  });

  it('a minted token is an access token for /mcp without a person or a connector', async () => {
    const { id, token, expiresAt } = await mint();
    const [{ items: keys }, header] = [
      (await request(host, 'GET', '/api/v1/keys')).body as { items: { id: string }[] },
      decodeProtectedHeader(token),
    ];
    expect(header).to.deep.equal({ alg: 'ES256', typ: 'at+jwt', kid: keys[0]?.id });
    const { iat = 0, exp, ...claims } = decodeJwt(token);
    expect(claims).to.deep.equal({
      iss: AUTH_URL,
      aud: `${RESOURCE_URL}/mcp`,
      sub: `minted:${id}`,
      client_id: `minted:${id}`,
      scope: 'operations',
      jti: id,
    });
    expect(exp).to.equal(Date.parse(expiresAt) / 1000);
    expect(iat).to.equal(host.now());
  });

  for (const [title, expiry, seconds] of [
    ['90 days by default', {}, 90 * DAY],
    ['for the requested time', { expiresIn: '30d' }, 30 * DAY],
    ['one second at least', { expiresIn: '1s' }, 1],
    ['366 days at most', { expiresIn: '366d' }, 366 * DAY],
  ] as const) {
    it(`a minted token lives ${title}`, async () => {
      const { expiresAt } = await mint({ ...GOOD, ...expiry });
      expect(secondsFromNow(expiresAt)).to.equal(seconds);
    });
  }

  it('`expiresAt` accepts any time zone', async () => {
    const moment = new Date(Date.now() + 40 * DAY * 1000).toISOString().slice(0, 19);
    const { expiresAt } = await mint({ ...GOOD, expiresAt: `${moment}+02:00` });
    expect(expiresAt).to.equal(new Date(`${moment}+02:00`).toISOString());
  });

  it('STK-01 the list shows the properties and the last four characters of a token, never the token', async () => {
    const { token, ...minted } = await mint();
    const { status, body } = await request(host, 'GET', TOKENS);
    expect(status).to.equal(200);
    const [item] = body['items'] as Token[];
    expect(body).to.deep.equal({
      items: [
        { ...minted, createdAt: item?.createdAt, by: 'key:default', lastFour: token.slice(-4) },
      ],
    });
    expect(secondsFromNow(item?.createdAt)).to.equal(0);
    for (const part of token.split('.')) expect(JSON.stringify(body)).to.not.include(part);
  });

  it('the list does not contain expired tokens', async () => {
    await mint({ ...GOOD, name: 'short', expiresIn: '1h' });
    await mint({ ...GOOD, name: 'long' });
    host.clock.ahead = 3601;
    expect(namesIn(await list())).to.deep.equal(['long']);
    host.clock.ahead = 0;
    expect(namesIn(await list())).to.deep.equal(['long']);
  });

  it('paging continues after the token of the cursor was revoked, oldest first', async () => {
    for (const name of ['A', 'B', 'C', 'D', 'E']) {
      await mint({ ...GOOD, name });
      host.clock.ahead += 1;
    }
    const first = await list('?limit=2');
    expect(namesIn(first)).to.deep.equal(['A', 'B']);
    await request(host, 'DELETE', `${TOKENS}/${first.next}`);
    const second = await list(`?limit=2&after=${first.next}`);
    expect(namesIn(second)).to.deep.equal(['C', 'D']);
    const third = await list(`?limit=2&after=${second.next}`);
    expect(namesIn(third)).to.deep.equal(['E']);
    expect(third).to.not.have.property('next');
    expect(await list('?limit=4')).to.not.have.property('next');
  });

  it('revoking returns the record once', async () => {
    const { id } = await mint();
    const { items } = await list();
    const { status, body, headers } = await request(host, 'DELETE', `${TOKENS}/${id}`);
    expect(status).to.equal(200);
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(body).to.deep.equal(items[0]);
    const again = await request(host, 'DELETE', `${TOKENS}/${id}`);
    expect(again.status).to.equal(404);
    expect(await list()).to.deep.equal({ items: [] });
  });

  it('revoking is published to every process', async () => {
    const { id } = await mint();
    const published = new Promise((resolve) => {
      void host.store.subscribe(MINTED_TOKENS_CHANNEL, resolve);
    });
    await request(host, 'DELETE', `${TOKENS}/${id}`);
    expect(await published).to.equal(id);
  });

  it('STK-05 minting and revoking are recorded once each, without the token', async () => {
    const { id, token, expiresAt } = await mint();
    for (const _ of [1, 2]) await request(host, 'DELETE', `${TOKENS}/${id}`);
    await request(host, 'POST', TOKENS, { body: { ...GOOD, level: 'root' } });
    const { body } = await request(host, 'GET', '/api/v1/audit?order=oldest');
    const about = { clientId: `minted:${id}`, by: 'key:default', outcome: 'done' };
    const items = body['items'] as Record<string, unknown>[];
    const place = (at: number) => ({
      id: items[at]?.['id'],
      epoch: items[0]?.['epoch'],
      number: at + 1,
    });
    expect(items).to.deep.equal([
      {
        ...place(0),
        time: items[0]?.['time'],
        event: 'token_minted',
        ...about,
        arguments: { ...GOOD, expiresAt },
      },
      {
        ...place(1),
        time: items[1]?.['time'],
        event: 'token_revoked',
        ...about,
        arguments: { ...GOOD, expiresAt },
      },
    ]);
    for (const part of token.split('.')) expect(JSON.stringify(body)).to.not.include(part);
  });

  for (const [title, wrong, problem] of [
    ['no name', { name: undefined }, /^name: /],
    ['a name of two lines', { name: 'a\nb' }, /^name: .*visible/],
    ['no level', { level: undefined }, /^level: one of analytics, operations, admin, full$/],
    ['an unknown level', { level: 'root' }, /^level: one of analytics/],
    ['an expiry of 367 days', { expiresIn: '367d' }, /^expiresIn: at most 366d/],
    ['an expiry far beyond 366 days', { expiresIn: '999999d' }, /^expiresIn: at most 366d/],
    ['a duration of zero', { expiresIn: '0s' }, /^expiresIn: a duration such as/],
    ['a null duration', { expiresIn: null }, /^expiresIn: /],
    ['a null time', { expiresAt: null }, /^expiresAt: /],
    [
      'a time that has passed',
      { expiresAt: '2020-01-01T00:00:00Z' },
      /^expiresAt: a time in the future/,
    ],
    ['a time beyond 366 days', { expiresAt: '2999-01-01T00:00:00Z' }, /^expiresAt: at most 366d/],
    ['two expiries', { expiresIn: '1d', expiresAt: '2999-01-01T00:00:00Z' }, /not both/],
    ['a limit of uses', { maxUses: 5 }, /^unknown: maxUses/],
    ['a token chosen by the caller', { token: 'x' }, /^unknown: token/],
  ] as const) {
    it(`STK-02 a token with ${title} is refused, and nothing is minted`, async () => {
      const { status, body } = await request(host, 'POST', TOKENS, { body: { ...GOOD, ...wrong } });
      expect(status).to.equal(400);
      expect(body).to.include({ error: 'invalid_request' });
      expect(body['error_description']).to.match(problem);
      expect(await list()).to.deep.equal({ items: [] });
    });
  }
});
