import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { connect, requestAuthorization } from '../support/connection.ts';
import { postBody } from '../support/mcp.ts';
import { type Parameters, requestToken } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { type LogLine, useSystem } from '../support/system.ts';

describe('The size limits of requests', () => {
  const log: LogLine[] = [];
  const system = useSystem({ log });

  for (const host of ['auth', 'resource', 'management'] as const) {
    it(`DOS-01 a request with more than 100 headers or 16 kB of headers gets 431 (${host})`, async () => {
      const base = system()[host];
      const many = Array.from({ length: 101 }, (_, n) => [`x-filler-${n}`, 'x']);
      const ask = (headers: Record<string, string>) =>
        rawRequest(base, { headers: { host: new URL(base).host, ...headers } });
      const { status, body } = await ask(Object.fromEntries(many));
      expect(status).to.equal(431);
      expect(body).to.include('100 headers');
      for (const size of [17_000, 60_000, 70_000])
        expect((await ask({ 'x-filler': 'x'.repeat(size) })).status).to.equal(431);
      const long = { path: `/${'x'.repeat(17_000)}`, headers: { host: new URL(base).host } };
      expect((await rawRequest(base, long)).status).to.equal(431);
      expect((await ask(Object.fromEntries(many.slice(0, 50)))).status).to.not.equal(431);
    });
  }

  for (const host of ['auth', 'resource', 'management'] as const)
    it(`a browser with too many cookies gets a page that says so, and the log a line (${host})`, async () => {
      const before = log.length;
      const address = `${system()[host]}/${host === 'management' ? 'console' : ''}`;
      const cookie = Array.from({ length: 10 }, (_, n) => `c${n}=${'x'.repeat(3000)}`).join('; ');
      const headers = { cookie, accept: 'text/html', 'accept-language': 'de' };
      const response = await fetch(address, { headers });
      const page = await response.text();
      expect(response.status).to.equal(431);
      // The pages of the console are in English.
      expect(page).to.match(
        /Ihr Browser hat zu viele Daten gesendet|Your browser sent too much data/,
      );
      expect(page).to.match(/Cookies|cookies/);
      const lines = log.slice(before).filter(({ status }) => status === 431);
      expect(lines.map(({ detail }) => detail)).to.deep.equal([
        'the headers of the request have more than 16384 characters; cookies of other websites on this domain count',
      ]);
    });

  for (const host of ['auth', 'resource'] as const) {
    it(`DOS-01 an Accept header of more than 2000 characters is ignored, as if it were absent (${host})`, async () => {
      const typeFor = async (accept: string) => {
        const response = await fetch(`${system()[host]}/nothing`, { headers: { accept } });
        return String(response.headers.get('content-type'));
      };
      const [page, absent] = [await typeFor('text/html'), await typeFor('*/*')];
      expect(await typeFor(`text/html, a/b;p="${';'.repeat(1900)}"`)).to.equal(page);
      expect(await typeFor(`text/html, a/b;p="${';'.repeat(2000)}"`)).to.equal(absent);
      expect(page).to.not.equal(absent);
    });
  }

  async function authorizeWith(sent: Parameters) {
    const { link } = await createConnector(system());
    const before = await countStoredKeys(system());
    const { url } = await requestAuthorization(system(), { link }, { ...sent });
    const response = await fetch(url, { redirect: 'manual' });
    const isStored = (await countStoredKeys(system())).interaction !== before.interaction;
    return { status: response.status, type: response.headers.get('content-type'), isStored };
  }

  const manyParameters = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`p${n}`, 'x']));
  const tooMuch: [string, Parameters, number][] = [
    ['8 kB of state', { state: 's'.repeat(8192) }, 414],
    ['3 kB of state', { state: 's'.repeat(3000) }, 400],
    ['a hundred unknown parameters', manyParameters, 400],
    ['six resources', { resource: Array.from({ length: 6 }, (_, n) => `https://a/${n}`) }, 400],
    ['five thousand resources', { resource: Array(1000).fill('a') }, 414],
    ['31 scopes', { scope: Array(31).fill('s').join(' ') }, 400],
    ['five thousand scopes', { scope: Array(5000).fill('s').join(' ') }, 414],
  ];
  for (const [what, sent, status] of tooMuch) {
    it(`DOS-02 DOS-05 an authorization request with ${what} gets an error page and stores nothing`, async () => {
      const answer = await authorizeWith(sent);
      expect(answer).to.include({ status, isStored: false });
      expect(answer.type).to.match(/^text\/html/);
    });
  }

  for (const [what, sent] of [
    ['2000 characters of state', { state: 's'.repeat(2000) }],
    ['thirty scopes', { scope: Array(30).fill('s').join(' ') }],
    ['parameters of other protocols', { nonce: 'n', display: 'page' }],
  ] as const) {
    it(`DOS-02 an authorization request with ${what} is accepted`, async () => {
      expect(await authorizeWith(sent)).to.include({ status: 303, isStored: true });
    });
  }

  it('DOS-05 an oversized token request is refused, and the refresh token stays valid', async () => {
    const connector = await createConnector(system());
    const { server, client, refreshToken, link } = await connect(system(), connector);
    const ask = (more: Parameters) =>
      requestToken(server, client, {
        grant_type: 'refresh_token',
        refresh_token: refreshToken,
        ...more,
      });
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`p${n}`, 'x']));
    expect((await ask(many)).status).to.equal(413);
    expect((await ask({ resource: Array(5000).fill('a') })).status).to.equal(413);
    expect((await ask({ resource: Array(1000).fill('a') })).body.error).to.equal('invalid_target');
    expect((await ask({ scope: Array(5000).fill('s').join(' ') })).status).to.equal(200);
    const again = await requestToken(server, client, {
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      resource: link,
    });
    expect(again.status).to.equal(200);
  });

  it('DOS-08 an MCP message with more than 200,000 values or 100 levels gets 400', async () => {
    const { link, accessToken } = await connect(system(), await createConnector(system()));
    const ask = (json: string) => {
      const message = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${json}}}`;
      return postBody(link, accessToken, message);
    };
    const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);
    const many = (values: number) => `[${Array(values).fill('0').join(',')}]`;
    for (const json of [nested(90), many(199_000)]) expect((await ask(json)).status).to.equal(200);
    for (const [json, message] of [
      [nested(100), '100 levels'],
      [many(200_000), '200000 values'],
    ] as const) {
      const refused = await ask(json);
      expect(refused.status).to.equal(400);
      expect(await refused.text()).to.include(message);
    }
  });
});
