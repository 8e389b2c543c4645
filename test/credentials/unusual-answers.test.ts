// Services and servers that answer in unusual ways.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { requirePage } from '../support/browser.ts';
import type { TokenAnswer } from '../support/credentials/protected-server.ts';
import {
  type Connected,
  openAddress,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { requestManagement } from '../support/management-api.ts';

const accountOf = ({ token }: Connected) => String(decodeJwt(token).sub);

/** An ID token, which nobody verifies. */
const idToken = (claims: object) =>
  ['{}', JSON.stringify(claims), '']
    .map((part) => Buffer.from(part).toString('base64url'))
    .join('.');

describe('A service that answers to a code in an unusual way', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  let ada: Connected;
  before(async () => {
    ada = await connectAs('ada');
  });
  afterEach(() => {
    service().codeMembers = {};
    service().user = 'ada';
    service().expiresIn = 3600;
  });

  async function connectAgain(codeMembers: Record<string, unknown> = {}, user = 'ada') {
    service().codeMembers = codeMembers;
    service().user = user;
    const address = ada.browser.visited.findLast(
      ({ pathname }) => pathname === '/credentials/tools',
    );
    const page = address
      ? requirePage(await ada.browser.visit(address.href))
      : await openAddress(await disconnected(), ada.browser);
    return requirePage(await ada.browser.submit(page, { credential: 'now' }));
  }

  async function disconnected() {
    await requestManagement(system(), 'DELETE', `/credentials/${UPSTREAM}.${accountOf(ada)}`);
    return ada.call();
  }

  const list = () => requestManagement(system(), 'GET', '/credentials');

  for (const expiresIn of [-1, 1e12, 1e300, '1e400', 'never', null, [5], {}])
    it(`CRD-24 expires_in ${JSON.stringify(expiresIn)} is shown in lists, and the account works`, async () => {
      await connectAgain({ expires_in: expiresIn });
      expect(JSON.stringify(await list())).to.contain(accountOf(ada));
      expect(textOf(await ada.call())).to.equal('ada');
    });

  for (const tokenType of ['mac', 'DPoP', 'N_A', '', null, undefined])
    it(`takes a token of the type ${JSON.stringify(tokenType)} as a bearer token`, async () => {
      await connectAgain({ token_type: tokenType });
      expect(textOf(await ada.call())).to.equal('ada');
    });

  it('CRD-07 keeps no refresh token for another account with the same name', async () => {
    const named = (sub: string) => idToken({ sub, name: 'Ada', email: 'team@example.com' });
    await connectAgain({ id_token: named('one') }, 'one');
    expect(textOf(await ada.call())).to.equal('one');
    await connectAgain({ id_token: named('two'), refresh_token: undefined, expires_in: 0 }, 'two');
    service().tokenRequests.length = 0;
    expect(textOf(await ada.call())).to.contain('/credentials/tools?for=');
    expect(service().tokenRequests).to.deep.equal([]);
  });

  it('keeps the refresh token of the same account, if the service sends none', async () => {
    const same = { id_token: idToken({ sub: 'one', name: 'Ada' }) };
    await connectAgain(same, 'one');
    await connectAgain({ ...same, refresh_token: undefined, expires_in: 0 }, 'one');
    expect(textOf(await ada.call())).to.equal('one');
  });

  it('CRD-25 the ID token of another person changes only the name that is shown', async () => {
    const account = accountOf(ada);
    await connectAgain({ id_token: idToken({ sub: account, email: 'grace@example.com' }) }, 'ada');
    const found = JSON.stringify(await list());
    expect(found).to.contain('grace@example.com').and.contain(account);
    expect(textOf(await ada.call())).to.equal('ada');
  });

  it('grants no more than the service says, also if it grants other scopes than were asked for', async () => {
    await connectAgain({ scope: 'a,b  c' });
    expect(JSON.stringify(await list())).to.contain('"scopes":["a","b","c"]');
  });
});

describe('A server that repeats the credential of the person', () => {
  const { service, connectAs } = usePersonalUpstream();
  let ada: Connected;
  before(async () => {
    ada = await connectAs('ada');
  });
  after(() => {
    service().answer = undefined;
  });
  const message = (members: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, ...members });
  const answers: Record<string, (token: string) => TokenAnswer> = {
    'an error with status 400': (token) => ({
      status: 400,
      body: message({ error: { code: -32_000, message: `Bearer ${token} is invalid` } }),
    }),
    'the data of an error with status 404': (token) => ({
      status: 404,
      body: message({ error: { code: -32_000, message: 'no', data: { sent: [token] } } }),
    }),
    'an error with status 200': (token) => ({
      body: message({ error: { code: -32_000, message: `Bearer ${token}` } }),
    }),
    'the result of a tool': (token) => ({
      body: message({
        result: { content: [{ type: 'text', text: `{"authorization":"${token}"}` }] },
      }),
    }),
    'a result above 16 kB': (token) => ({
      body: message({
        result: { content: [{ type: 'text', text: `${'x'.repeat(40_000)} ${token}` }] },
      }),
    }),
    'an event': (token) => ({
      type: 'text/event-stream',
      body: `data: ${message({ result: { content: [{ type: 'text', text: token }] } })}\n\n`,
    }),
    'an event above 16 kB': (token) => ({
      type: 'text/event-stream',
      body: `data: ${message({ result: { content: [{ type: 'text', text: 'x'.repeat(40_000) + token }] } })}\n\n`,
    }),
    'a page with status 500': (token) => ({ status: 500, type: 'text/html', body: token }),
    'a page with status 403': (token) => ({ status: 403, type: 'text/html', body: token }),
  };
  for (const [title, answer] of Object.entries(answers))
    it(`CRD-26 does not bring it to the app in ${title}`, async () => {
      let sent = '';
      service().answer = (token) => answer((sent = token));
      const { text, headers } = await ada.call();
      expect(sent).to.match(/^at-/);
      expect(text).to.not.equal('');
      expect(text + JSON.stringify([...headers])).to.not.contain(sent.slice(3));
    });
});
