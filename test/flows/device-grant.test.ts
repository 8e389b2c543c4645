// The device grant (RFC 8628): the device, its code, and the person who enters it.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { decideDevice, deviceIdOf } from '../../src/oauth/engine/device-codes.ts';
import { submitAccountForm, textOf } from '../support/account-page.ts';
import {
  type Browser,
  isConsentPage,
  openBrowser,
  type Page,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, freezeClock, restoreClock } from '../support/clock.ts';
import {
  assertionParameters,
  createAssertion,
  generateAssertionKey,
} from '../support/client-assertion.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { connect } from '../support/connection.ts';
import {
  changeAccount,
  type Connector,
  createConnector,
  readAudit,
  requestManagement,
  revokeConnector,
  showGrant,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { type Client, discover, refresh, register, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';

const DOCUMENT = 'https://app.example/client.json';
const DEVICE_ADDRESS = '203.0.113.9';
const FORWARDED = { 'x-forwarded-for': DEVICE_ADDRESS };
const KEY = await generateAssertionKey('ES256');
const HOSTILE = '<script>alert(1)</script>” is verified';

describe('The device grant', () => {
  const system = useSystem({
    file: {
      proxies: 1,
      clients: {
        preRegistered: [
          {
            id: 'keyed',
            name: 'Keyed terminal',
            redirectUris: ['https://reports.example/cb'],
            jwks: { keys: [KEY.jwk] },
          },
          {
            id: 'reports',
            name: 'Monthly reports',
            redirectUris: ['https://reports.example/cb'],
            secret: 's'.repeat(40),
          },
        ],
        metadataDocuments: [
          {
            url: DOCUMENT,
            document: {
              client_id: DOCUMENT,
              client_name: 'Claude',
              redirect_uris: ['https://app.example/cb'],
              grant_types: ['authorization_code', DEVICE_CODE],
            },
          },
        ],
      },
    },
  });
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    connector = await createConnector(system(), { name: 'Club figures' });
    ({ server } = await discover(connector.link));
    client = await registered();
  });
  afterEach(restoreClock);

  async function registered(more = {}): Promise<Client> {
    const { body } = await register(server, {
      client_name: 'Terminal',
      grant_types: [DEVICE_CODE, 'refresh_token'],
      token_endpoint_auth_method: 'none',
      ...more,
    });
    const method = body.client_secret === undefined ? 'none' : 'client_secret_basic';
    return { id: body.client_id ?? '', secret: body.client_secret, method, redirectUri: '' };
  }

  const ask = async (more = {}, as = client) =>
    (await askForDevice(server, as, { resource: connector.link, ...more }, FORWARDED)).body;
  /** A person in a network of their own, so that tests do not share the limit of guesses. */
  let people = 0;
  const newBrowser = () => openBrowser(system().origins, `198.51.100.${(people += 1)}`);
  const enter = (code: string, browser = newBrowser()) =>
    enterCode(browser, `${system().auth}/device`, code);
  const errorOf = async (code: string, more = {}, as = client) =>
    (await poll(server, as, code, more)).body.error;
  async function decide(decision: string, browser: Browser, page: Page) {
    return requirePage(await browser.submit(page, { decision }));
  }
  async function approved(more = {}) {
    const device = await ask(more);
    const browser = newBrowser();
    const page = await enter(device.user_code, browser);
    await decide('approve', browser, page);
    return { ...device, browser, page };
  }

  it('DEV-04 a device gets tokens for its connect link once a person has approved its code', async () => {
    const device = await ask();
    expect(device.user_code).to.match(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
    expect(device).to.include({ expires_in: 600, interval: 5 });
    expect(device.verification_uri).to.equal(`${system().auth}/device`);
    expect(await errorOf(device.device_code)).to.equal('authorization_pending');
    const browser = newBrowser();
    const page = await enter(device.user_code.toLowerCase().replace('-', ' '), browser);
    expect(isConsentPage(page)).to.equal(true);
    const done = await decide('approve', browser, page);
    expect(textOf(done))
      .to.contain('Go back to your device')
      .and.to.match(/App\s+Terminal\s+Connector\s+Club figures/);
    const { body } = await poll(server, client, device.device_code, { resource: connector.link });
    expect(body.scope).to.equal('operations offline_access');
    expect(decodeJwt(String(body.access_token)).aud).to.equal(connector.link);
    expect(await isAccepted(connector.link, String(body.access_token))).to.equal(true);
    const again = await refresh(server, client, body.refresh_token);
    expect(again.status).to.equal(200);
  });

  it('DEV-01 the consent page shows the code, the network and the time of the device, and warns about another network', async () => {
    const device = await ask();
    const page = await enter(device.user_code);
    const [, about = '', details = ''] =
      /id="redirect">([\s\S]*?)<\/dl>[\s\S]*id="details">([\s\S]*)/.exec(page.html) ?? [];
    for (const shown of [device.user_code, '<time', 'other-network'])
      expect(about, shown).to.contain(shown);
    expect(details).to.contain(DEVICE_ADDRESS);
    const near = openBrowser(system().origins, DEVICE_ADDRESS);
    expect((await enter(device.user_code, near)).html).not.to.contain('other-network');
  });

  it('the names of apps are escaped, and both pages have a strict policy without scripts and frames', async () => {
    const device = await ask({}, await registered({ client_name: HOSTILE }));
    const browser = newBrowser();
    const form = requirePage(await browser.visit(device.verification_uri_complete));
    const page = await enter(device.user_code, browser);
    expect(page.html).to.contain('not verified').and.not.to.contain('<script>alert');
    for (const { headers } of [form, page]) {
      const policy = headers.get('content-security-policy');
      expect(policy).to.contain("default-src 'none'").and.to.contain("frame-ancestors 'none'");
      expect(headers.get('x-frame-options')).to.equal('DENY');
      expect(headers.get('cache-control')).to.equal('no-store');
    }
  });

  it('DEV-02 an address with the code shows the code, and a signed-in person still has to confirm and to approve', async () => {
    const { browser } = await approved();
    const device = await ask();
    const form = requirePage(await browser.visit(device.verification_uri_complete));
    expect(form.html).to.contain(device.user_code);
    const page = requirePage(await browser.submit(form, {}));
    expect(isConsentPage(page)).to.equal(true);
    expect(await errorOf(device.device_code)).to.equal('authorization_pending');
  });

  it('an address with anything but a code shows an empty field', async () => {
    const page = requirePage(
      await newBrowser().visit(`${system().auth}/device?user_code=${encodeURIComponent(HOSTILE)}`),
    );
    expect(page.html).to.contain('name="user_code"').and.not.to.contain('alert');
  });

  it('DEV-11 a device that asks too often has to slow down by five seconds each time', async () => {
    freezeClock();
    const { device_code: code } = await ask();
    expect(await errorOf(code)).to.equal('authorization_pending');
    expect(await errorOf(code)).to.equal('slow_down');
    advanceClock(6);
    expect(await errorOf(code)).to.equal('slow_down');
    advanceClock(9);
    expect(await errorOf(code)).to.equal('authorization_pending');
  });

  it('DEV-04 a code expires after ten minutes, for the device and for the person', async () => {
    const device = await ask();
    const browser = newBrowser();
    const page = await enter(device.user_code, browser);
    advanceClock(601);
    expect(await errorOf(device.device_code)).to.equal('expired_token');
    const late = await decide('approve', browser, page);
    expect(late.status).to.equal(400);
    expect(late.html).to.contain('This code no longer works');
    expect(late.html).to.contain('href="/device">Enter a code</a>');
    const wrong = await enter(device.user_code);
    expect(wrong.html)
      .to.contain('This code isn’t valid')
      .and.contain(`value="${device.user_code}"`);
  });

  it('DEV-05 a denial is final for the device and for its code', async () => {
    const device = await ask();
    const browser = newBrowser();
    const page = await enter(device.user_code, browser);
    expect((await decide('deny', browser, page)).html).to.contain('The device didn’t get access');
    expect((await enter(device.user_code)).status).to.equal(400);
    expect(await errorOf(device.device_code)).to.equal('access_denied');
    expect(await errorOf(device.device_code)).to.equal('access_denied');
  });

  it('a denial after the approval takes the access away, whether or not the device has fetched it', async () => {
    for (const fetches of [false, true]) {
      const { browser, page, device_code: code } = await approved();
      const tokens = fetches ? (await poll(server, client, code)).body : undefined;
      const result = await decide('deny', browser, page);
      expect(textOf(result))
        .to.contain(fetches ? 'no longer has this access' : 'didn’t get access')
        .and.to.match(/App\s+Terminal\s+Connector\s+Club figures/);
      if (fetches)
        expect((await refresh(server, client, tokens?.refresh_token)).body.error).to.equal(
          'invalid_grant',
        );
      else expect(await errorOf(code)).to.equal('access_denied');
    }
  });

  it('the person may approve with another account', async () => {
    const device = await ask();
    const browser = newBrowser();
    const page = await enter(device.user_code, browser);
    const signIn = requirePage(await browser.submit(page, { decision: 'switch' }));
    const other = requirePage(await browser.submit(signIn, { person: 'grace' }));
    expect(other.html).to.contain('Grace Hopper').and.to.contain(device.user_code);
    await decide('approve', browser, other);
    expect((await poll(server, client, device.device_code)).status).to.equal(200);
  });

  it('DEV-08 a connect link that is revoked meanwhile admits no device, before and after the approval', async () => {
    const links = [await createConnector(system()), await createConnector(system())] as const;
    const devices = [];
    for (const { link } of links) devices.push(await ask({ resource: link }));
    const [before, after] = devices.map(({ user_code: code }) => code) as [string, string];
    const browser = newBrowser();
    await decide('approve', browser, await enter(after, browser));
    for (const { id } of links) await revokeConnector(system(), id);
    const page = await enter(before, browser);
    expect(page.status).to.equal(400);
    expect(page.html).to.contain('This connect link doesn’t work');
    const errors = [];
    for (const { device_code: code } of devices) errors.push(await errorOf(code));
    expect(errors).to.deep.equal(['authorization_pending', 'invalid_grant']);
  });

  it('two clicks on Approve connect the device once', async () => {
    const device = await ask();
    const browser = newBrowser();
    const page = await enter(device.user_code, browser);
    const both = await Promise.all([
      decide('approve', browser, page),
      decide('approve', browser, page),
    ]);
    for (const { html } of both) expect(html).to.contain('Go back to your device');
    expect((await poll(server, client, device.device_code)).status).to.equal(200);
  });

  it('DEV-05 of two people who enter one code, the first decision counts', async () => {
    const device = await ask();
    const [first, second] = [newBrowser(), newBrowser()];
    const pages = [await enter(device.user_code, first), await enter(device.user_code, second)];
    const [one, two] = pages as [Page, Page];
    await decide('deny', second, two);
    expect((await decide('approve', first, one)).status).to.equal(400);
    expect(await errorOf(device.device_code)).to.equal('access_denied');
  });

  it('DEV-05 of decisions that are stored at the same time, one counts', async () => {
    const id = deviceIdOf((await ask()).device_code);
    const { store } = await openSystemStore(system());
    const now = Date.now() / 1000;
    const outcomes = await Promise.all([
      decideDevice(store, id, 'denied', now),
      decideDevice(store, id, { grantId: 'of-another-person' }, now),
    ]).finally(() => store.close());
    expect(outcomes.filter(Boolean)).to.have.length(1);
  });

  it('DEV-06 polls with the code of another client do not slow down its device', async () => {
    const { device_code: code } = await ask();
    const stranger = await registered();
    for (let polls = 0; polls < 3; polls += 1)
      expect(await errorOf(code, {}, stranger)).to.equal('invalid_grant');
    expect(await errorOf(code)).to.equal('authorization_pending');
  });

  it('DEV-06 a request with another client, resource or key is refused and consumes nothing', async () => {
    const { device_code: code } = await approved();
    const other = await createConnector(system());
    expect(await errorOf(code, {}, await registered())).to.equal('invalid_grant');
    expect(await errorOf(code, { resource: other.link })).to.equal('invalid_target');
    expect(await errorOf('x'.repeat(43))).to.equal('invalid_grant');
    const { status, body } = await poll(server, client, code, { scope: 'analytics full' });
    expect([status, body.scope]).to.deep.equal([200, 'operations offline_access']);
  });

  it('DEV-04 a device code works once: a second use ends the connection', async () => {
    const { device_code: code } = await approved();
    const both = await Promise.all([poll(server, client, code), poll(server, client, code)]);
    expect(both.map(({ status }) => status).sort()).to.deep.equal([200, 400]);
    const tokens = both.find(({ status }) => status === 200)?.body;
    advanceClock(5);
    expect(await errorOf(code)).to.equal('invalid_grant');
    const refused = await refresh(server, client, tokens?.refresh_token);
    expect(refused.body.error).to.equal('invalid_grant');
  });

  it('DEV-10 every kind of client may ask for devices, with its own authentication', async () => {
    const secret = await registered({ token_endpoint_auth_method: 'client_secret_basic' });
    const reports: Client = {
      id: 'reports',
      secret: 's'.repeat(40),
      method: 'client_secret_basic',
      redirectUri: '',
    };
    const published: Client = { id: DOCUMENT, method: 'none', redirectUri: '' };
    for (const each of [secret, reports, published]) {
      const device = await ask({}, each);
      const browser = newBrowser();
      await decide('approve', browser, await enter(device.user_code, browser));
      expect((await poll(server, each, device.device_code)).status, each.id).to.equal(200);
    }
    const withoutSecret = { ...secret, method: 'none' } as const;
    expect((await ask({}, withoutSecret)).error).to.equal('invalid_client');
  });

  it('a client with a key authenticates with a new assertion in each request, and is refused without', async () => {
    const keyed: Client = { id: 'keyed', method: 'none', redirectUri: '' };
    const assertion = async () =>
      assertionParameters(await createAssertion(KEY, { server, client: keyed }));
    expect((await ask({}, keyed)).error).to.equal('invalid_client');
    const device = await ask(await assertion(), keyed);
    const browser = newBrowser();
    await decide('approve', browser, await enter(device.user_code, browser));
    expect(await errorOf(device.device_code, {}, keyed)).to.equal('invalid_client');
    const { status } = await poll(server, keyed, device.device_code, await assertion());
    expect(status).to.equal(200);
  });

  it('a machine may not ask for devices', async () => {
    const wanted = { name: 'CI', connector: connector.id, level: 'operations' };
    const { id, secret } = (await requestManagement(system(), 'POST', '/clients', wanted)) as {
      id: string;
      secret: string;
    };
    const machine = { id, secret, method: 'client_secret_basic', redirectUri: '' } as const;
    expect((await ask({}, machine)).error).to.equal('unauthorized_client');
  });

  it('a registration gets the grant type only if it asks, and needs no redirect URI if it asks for nothing else', async () => {
    const loopback = ['http://127.0.0.1:7070/callback'];
    const both = await register(server, {
      redirect_uris: loopback,
      grant_types: ['authorization_code', DEVICE_CODE],
    });
    expect(both.body.grant_types).to.have.members([
      'authorization_code',
      'refresh_token',
      DEVICE_CODE,
    ]);
    const alone = await register(server, { grant_types: [DEVICE_CODE] });
    expect(alone.status).to.equal(201);
    expect(alone.body.grant_types).to.have.members(['refresh_token', DEVICE_CODE]);
    expect(alone.body.redirect_uris).to.deep.equal([]);
    const foreign = { redirect_uris: ['https://evil.example/cb'], grant_types: [DEVICE_CODE] };
    expect((await register(server, foreign)).body.error).to.equal('invalid_redirect_uri');
    const usual = await registered({ redirect_uris: loopback, grant_types: undefined });
    expect((await ask({}, usual)).error).to.equal('unauthorized_client');
  });

  it('DEV-06 the resource is required, and compared as in an authorization request', async () => {
    const { link } = connector;
    expect((await ask({ resource: [link, `${link}/`] })).user_code).not.to.equal('');
    for (const resource of [undefined, `${link}x`, [link, (await createConnector(system())).link]])
      expect((await ask({ resource })).error, String(resource)).to.equal('invalid_target');
  });

  it('a scope above the connect link is limited, and an endless one refused', async () => {
    const { device_code: code } = await approved({ scope: 'full unknown' });
    expect((await poll(server, client, code)).body.scope).to.contain('operations');
    expect((await ask({ scope: 'a'.repeat(1000) })).error).to.equal(undefined);
    expect((await ask({ scope: 'a'.repeat(1001) })).error).to.equal('invalid_scope');
  });

  it('DEV-03 five wrong codes a minute, among correct ones, block an address, also for a correct code, and no other address', async () => {
    const device = await ask();
    const browser = newBrowser();
    for (let n = 0; n < 5; n += 1) {
      expect((await enter('BCDF-GHJK', browser)).html).to.contain('This code isn’t valid');
      if (n < 4) expect(isConsentPage(await enter(device.user_code, browser))).to.equal(true);
    }
    expect((await enter(device.user_code, browser)).status).to.equal(429);
    expect(isConsentPage(await enter(device.user_code))).to.equal(true);
    advanceClock(61);
    expect(isConsentPage(await enter(device.user_code, browser))).to.equal(true);
  });

  it('DEV-03 concurrent guesses do not exceed the limit', async () => {
    const browser = newBrowser();
    const form = requirePage(await browser.visit(`${system().auth}/device`));
    const guesses = Array.from({ length: 12 }, () =>
      browser.submit(form, { user_code: 'BCDF-GHJK' }),
    );
    const statuses = (await Promise.all(guesses)).map((step) => requirePage(step).status);
    expect(statuses.filter((status) => status === 400)).to.have.length(5);
  });

  it('DEV-07 the form is refused from another site, and without the cookie of its browser', async () => {
    const { user_code: code } = await ask();
    const browser = newBrowser();
    const form = requirePage(await browser.visit(`${system().auth}/device`));
    const [{ action = new URL(form.url) } = {}] = form.forms;
    const stranger = { ...form, url: new URL('https://evil.example/') };
    const post = async (from: Page, token: string) => {
      const body = new URLSearchParams({ user_code: code, token });
      return requirePage(await browser.post(from, action, body)).status;
    };
    const token = form.forms[0]?.controls.find(({ name }) => name === 'token')?.value ?? '';
    expect(await post(stranger, token)).to.equal(403);
    expect(await post(form, 'x')).to.equal(403);
    expect(await post(form, token)).to.equal(200);
    expect(requirePage(await newBrowser().submit(form, { user_code: code })).status).to.equal(400);
  });

  it('an administrator sees the connection and its network, and the person can disconnect it', async () => {
    const { device_code: code, browser } = await approved();
    const { body } = await poll(server, client, code);
    const { grant_id: id } = decodeJwt(String(body.access_token));
    expect((await showGrant(system(), String(id))).state).to.equal('active');
    const item = (await readAudit(system())).find(
      (each) => each.event === 'consent_approved' && each.grantId === id,
    );
    expect(item?.arguments).to.include({ client: 'Terminal', network: DEVICE_ADDRESS });
    const account = requirePage(await browser.visit(`${system().auth}/account`));
    expect(account.html).to.contain('Terminal').and.not.to.contain('<bdi></bdi>');
    await submitAccountForm(browser, account, { decision: 'disconnect', grant: String(id) });
    expect((await refresh(server, client, body.refresh_token)).status).to.equal(400);
  });

  it('DEV-08 a blocked app gets no consent, and its waiting device no tokens', async () => {
    const app = await registered({ client_name: 'Evil terminal' });
    const device = await ask({}, app);
    await requestManagement(system(), 'POST', '/client-rules', { name: 'Evil terminal' });
    const page = await enter(device.user_code);
    expect(page.status).to.equal(403);
    expect(page.html).to.contain('This app is blocked');
    expect(await errorOf(device.device_code, {}, app)).to.equal('authorization_pending');
  });

  it('DEV-08 an approved device keeps the only use of its link until its code expires', async () => {
    const single = await createConnector(system(), { maxUses: 1 });
    const { device_code: code } = await approved({ resource: single.link });
    advanceClock(300);
    const other = await ask({ resource: single.link });
    const browser = newBrowser();
    const page = await enterCode(browser, `${system().auth}/device`, other.user_code, 'grace');
    expect(page.html).to.contain('used up');
    expect((await poll(server, client, code)).status).to.equal(200);
  });

  it('DEV-08 a used-up connect link admits no device', async () => {
    const single = await createConnector(system(), { maxUses: 1 });
    const tokens = [];
    for (const person of ['ada', 'grace'] as const) {
      const { body: device } = await askForDevice(server, client, { resource: single.link });
      const browser = newBrowser();
      const page = await enterCode(browser, `${system().auth}/device`, device.user_code, person);
      if (person === 'ada') await decide('approve', browser, page);
      else expect(page.html).to.contain('used up');
      tokens.push((await poll(server, client, device.device_code)).body);
    }
    expect(tokens.map(({ error }) => error)).to.deep.equal([undefined, 'authorization_pending']);
  });

  // Last, because it enables the account in the future.
  it('a person who was disabled and enabled after the device asked can connect it', async () => {
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    const device = await ask();
    advanceClock(5);
    const account = String(decodeJwt(accessToken).sub);
    await changeAccount(system(), account, 'disable');
    await changeAccount(system(), account, 'enable');
    advanceClock(5);
    const browser = newBrowser();
    const url = `${system().auth}/device`;
    await decide('approve', browser, await enterCode(browser, url, device.user_code, 'grace'));
    expect((await poll(server, client, device.device_code)).status).to.equal(200);
  });
});
