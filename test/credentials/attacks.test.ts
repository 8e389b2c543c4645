import { createServer, type ServerResponse } from 'node:http';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  type Browser,
  openBrowser,
  type Page,
  requirePage,
  type Step,
} from '../support/browser.ts';
import { restoreClock } from '../support/clock.ts';
import {
  type Connected,
  later,
  openAddress,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { changeAccount } from '../support/management-api.ts';
import { listenOnLoopback } from '../support/loopback-server.ts';
import { until } from '../support/until.ts';

describe('A hostile or changed service of own accounts', () => {
  const { system, service, link, connectAs } = usePersonalUpstream();
  let ada: Connected;

  before(async () => {
    ada = await connectAs('ada', later);
  });
  afterEach(() => {
    restoreClock();
    const state = service();
    state.metadata = {};
    state.resourceMetadata = {};
    state.callbackMembers = {};
    state.refusesRegistration = undefined;
    state.tokenAnswers.length = 0;
    state.user = 'ada';
  });

  /** The page of the person's own address, also while the account is connected. */
  async function ownPage(browser: Browser = ada.browser): Promise<Page> {
    const account = requirePage(await browser.visit(`${system().auth}/account`));
    const connected = account.forms.find(({ controls }) =>
      controls.some(({ name, value }) => name === 'decision' && value === 'end-credential'),
    );
    if (connected) await browser.submit(account, { upstream: 'tools', decision: 'end-credential' });
    return openAddress(await ada.call(), browser);
  }

  async function connectAgain(): Promise<Step> {
    return ada.browser.submit(await ownPage(), { credential: 'now' });
  }

  const asksAgain = async () => expect(textOf(await ada.call())).to.contain('/credentials/tools');

  it('CRD-05 no request goes to a private address that the metadata of the server name', async () => {
    const paths: string[] = [];
    const hidden = createServer((req, res: ServerResponse) => {
      paths.push(String(req.url));
      res.end('{}');
    });
    const { origin, stop } = await listenOnLoopback(hidden);
    const elsewhere = origin.replace('127.0.0.1', 'localhost');
    try {
      for (const issuer of [elsewhere, elsewhere.replace('http:', 'https:')]) {
        service().resourceMetadata = { authorization_servers: [issuer] };
        expect(requirePage(await connectAgain()).status, issuer).to.equal(400);
      }
      service().resourceMetadata = {};
      for (const member of ['registration_endpoint', 'token_endpoint', 'authorization_endpoint']) {
        service().metadata = { issuer: service().origin, [member]: `${elsewhere}/x` };
        expect(requirePage(await connectAgain()).status, member).to.equal(400);
      }
    } finally {
      await stop();
    }
    expect(paths).to.deep.equal([]);
  });

  it('CRD-05 no redirect of a server or service is followed', async () => {
    const paths: string[] = [];
    const hidden = createServer((req, res: ServerResponse) => {
      paths.push(String(req.url));
      res.end('{}');
    });
    const { origin, stop } = await listenOnLoopback(hidden);
    try {
      for (const path of [
        '/.well-known/oauth-protected-resource/mcp',
        '/.well-known/oauth-authorization-server',
        '/register',
        '/token',
      ]) {
        // A client is registered for each issuer once.
        const issuer = service().origin + (path === '/register' ? '/' : '');
        service().metadata = { issuer };
        service().redirects = { [path]: `${origin}${path}` };
        await connectAgain();
      }
    } finally {
      service().redirects = {};
      await stop();
    }
    expect(paths).to.deep.equal([]);
    await asksAgain();
  });

  for (const [title, metadata] of Object.entries({
    'an authorization endpoint that is a script': { authorization_endpoint: 'javascript:alert(1)' },
    'an authorization endpoint that is no address': { authorization_endpoint: 'authorize' },
    'a token endpoint that is no address': { token_endpoint: '/token' },
    'a token endpoint with a user name': { token_endpoint: 'http://a:b@127.0.0.1/token' },
    'another issuer than the one that was asked': { issuer: 'https://other.example' },
  }))
    it(`CRD-06 the page says that the service is not set up if its metadata have ${title}`, async () => {
      service().metadata = metadata;
      const page = requirePage(await connectAgain());
      expect(page.status).to.equal(400);
      expect(page.html).to.contain('set up right');
      await asksAgain();
    });

  it('CRD-06 the page says that the service is not set up if the server names an issuer that is no address', async () => {
    service().resourceMetadata = { authorization_servers: ['tenant'] };
    expect(requirePage(await connectAgain()).status).to.equal(400);
  });

  it('the page says that the service does not answer if a registration has no answer', async () => {
    service().metadata = { issuer: `${service().origin}/` };
    service().refusesRegistration = 'hang up';
    expect(requirePage(await connectAgain()).status).to.equal(400);
  });

  it('CRD-04 a way back that another service sends is refused, and no code leaves', async () => {
    service().callbackMembers = { iss: 'https://other.example' };
    service().tokenRequests.length = 0;
    expect(requirePage(await connectAgain()).status).to.be.within(400, 403);
    service().callbackMembers = {};
    service().metadata = { authorization_response_iss_parameter_supported: true };
    expect(requirePage(await connectAgain()).status).to.be.within(400, 403);
    expect(service().tokenRequests).to.deep.equal([]);
    await asksAgain();
  });

  it('CRD-03 the state of one person completes nothing for another one in the same browser', async () => {
    const shared = openBrowser([...system().origins]);
    shared.jar.push(...ada.browser.jar);
    const page = await ownPage(shared);
    const away = await shared.submit(page, { credential: 'now' });
    if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
    const response = await fetch(away.url, { redirect: 'manual' });
    const back = String(response.headers.get('location'));
    const grace = await connectAs('grace', later);
    const mark = shared.jar.filter(({ name }) => name.includes('gatehouse-credential'));
    expect(mark).to.not.deep.equal([]);
    grace.browser.jar.push(...mark);
    expect(requirePage(await grace.browser.visit(back)).status).to.equal(400);
    await asksAgain();
    expect(textOf(await grace.call())).to.contain('/credentials/tools');
  });

  it('CRD-07 a refresh token of another account than the one given last is never used', async () => {
    await connectAgain();
    expect(textOf(await ada.call())).to.equal('ada');
    const page = requirePage(await ada.browser.visit(addressOf(ada)));
    // The service names no account, so it may be another one.
    service().tokenAnswers = [{ body: '{"access_token":"a9","token_type":"bearer"}' }];
    await ada.browser.submit(page, { credential: 'now' });
    service().tokenRequests.length = 0;
    await asksAgain();
    expect(service().tokenRequests).to.deep.equal([]);
  });

  it('CRD-08 a stream that was opened with an account ends with it', async () => {
    await connectAgain();
    const open = await fetch(link(), {
      headers: { authorization: `Bearer ${ada.token}`, accept: 'text/event-stream' },
    });
    expect(open.status).to.equal(200);
    await until('the server to have the stream', () => service().streams.size === 1);
    await ownPage();
    await open.text();
    await until('the server to lose the stream', () => service().streams.size === 0);
  });

  for (const resource of ['https://other.example/mcp', 'mcp', 'http://127.0.0.1:1/mcp'])
    it(`CRD-14 no token is asked for if the server says that it is ${resource}`, async () => {
      service().resourceMetadata = { resource };
      const page = requirePage(await connectAgain());
      expect(page.status).to.equal(400);
      expect(page.html).to.contain('set up right');
    });

  it('a server that names a part of its address as the resource gets tokens for that', async () => {
    service().resourceMetadata = { resource: service().origin };
    expect(requirePage(await connectAgain()).status).to.equal(200);
    expect(service().tokenRequests.at(-1)?.get('resource')).to.equal(service().origin);
  });

  it('CRD-15 tokens that arrive after the person disconnected are revoked', async () => {
    await connectAgain();
    service().expire();
    service().revoked.length = 0;
    const disconnected = Promise.withResolvers<void>();
    let late = '';
    service().beforeAnswer = async (token) => {
      late = token;
      const account = requirePage(await ada.browser.visit(`${system().auth}/account`));
      await ada.browser.submit(account, { upstream: 'tools', decision: 'end-credential' });
      disconnected.resolve();
    };
    await asksAgain();
    await disconnected.promise;
    service().beforeAnswer = undefined;
    await until('the late token to be revoked', () => service().revoked.includes(late));
  });

  it('CRD-16 nothing is connected for a person who was disabled on the way', async () => {
    const grace = await connectAs('grace', later);
    const page = await openAddress(await grace.call(), grace.browser);
    const only = openBrowser(system().origins);
    only.jar.push(...grace.browser.jar);
    const away = await only.submit(page, { credential: 'now' });
    if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
    const response = await fetch(away.url, { redirect: 'manual' });
    const account = String(decodeJwt(grace.token).sub);
    await changeAccount(system(), account, 'disable');
    service().tokenRequests.length = 0;
    const back = requirePage(await only.visit(String(response.headers.get('location'))));
    expect(back.status).to.equal(400);
    expect(service().tokenRequests).to.deep.equal([]);
    await changeAccount(system(), account, 'enable');
  });

  it('of two tabs that connect at once both succeed, and the account is connected', async () => {
    const page = await ownPage();
    const steps = await Promise.all(
      [ada.browser, openBrowserLike(ada.browser)].map((tab) =>
        tab.submit(page, { credential: 'now' }),
      ),
    );
    for (const step of steps) expect(requirePage(step).status).to.equal(200);
    expect(textOf(await ada.call())).to.equal('ada');
  });

  function openBrowserLike({ jar }: Browser): Browser {
    const browser = openBrowser([...system().origins, service().origin]);
    browser.jar.push(...jar);
    return browser;
  }

  function addressOf({ browser }: Connected): string {
    const address = browser.visited.findLast(({ pathname }) => pathname === '/credentials/tools');
    return String(address);
  }
});
