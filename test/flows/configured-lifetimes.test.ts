import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  isSignInPage,
  openBrowser,
  requirePage,
  type Browser,
} from '../support/browser.ts';
import { connect, registerClient, requestAuthorization } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh, type Client } from '../support/oauth.ts';
import { freezeClockAt, freezeClock } from '../support/clock.ts';
import { useSystem } from '../support/system.ts';

const MINUTE = 60;
const HOUR = 60 * MINUTE;

describe('Lifetimes in the settings', () => {
  const system = useSystem({
    file: {
      lifetimes: {
        accessToken: '10m',
        refreshTokenIdle: '2h',
        refreshTokenAbsolute: '5h',
        session: '30m',
        unusedClient: '1h',
        usedClient: '6h',
      },
    },
  });

  async function open(link: string, client?: Client, browser?: Browser) {
    const { server } = await discover(link);
    const known = client ?? (await registerClient(server));
    const { url } = authorizeUrl(server, known, { resource: link });
    return requirePage(await (browser ?? openBrowser(system().origins)).visit(url));
  }

  it('access tokens state the configured lifetime and expire after it', async () => {
    const now = freezeClock();
    const { link, server, client, accessToken, refreshToken } = await connect(
      system(),
      await createConnector(system()),
    );
    const { iat = 0, exp = 0 } = decodeJwt(accessToken);
    expect(exp - iat).to.equal(10 * MINUTE);
    freezeClockAt(now + 10 * MINUTE - 1);
    expect(await isAccepted(link, accessToken)).to.equal(true);
    freezeClockAt(now + 10 * MINUTE);
    expect(await isAccepted(link, accessToken)).to.equal(false);
    const { body } = await refresh(server, client, refreshToken);
    expect(body.expires_in).to.equal(10 * MINUTE);
  });

  it('refresh tokens expire after the configured time without use', async () => {
    const now = freezeClock();
    const connector = await createConnector(system());
    const used = await connect(system(), connector);
    const unused = await connect(system(), connector, { person: 'grace' });
    freezeClockAt(now + 2 * HOUR - 1);
    expect((await refresh(used.server, used.client, used.refreshToken)).status).to.equal(200);
    freezeClockAt(now + 2 * HOUR);
    const { status, body } = await refresh(unused.server, unused.client, unused.refreshToken);
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant']);
  });

  it('connections end after the configured time, however often they are used', async () => {
    const now = freezeClock();
    const { server, client, refreshToken } = await connect(
      system(),
      await createConnector(system()),
    );
    let token = refreshToken;
    for (const [after, left] of [
      [HOUR, 10 * MINUTE],
      [2 * HOUR, 10 * MINUTE],
      [3.5 * HOUR, 10 * MINUTE],
      [5 * HOUR - 60, 60],
    ] as const) {
      freezeClockAt(now + after);
      const { body } = await refresh(server, client, token);
      expect(body.expires_in, `after ${after} s`).to.equal(left);
      token = body.refresh_token;
    }
    freezeClockAt(now + 5 * HOUR);
    expect((await refresh(server, client, token)).body.error).to.equal('invalid_grant');
  });

  it('the consent page states the configured lifetime', async () => {
    const { link } = await createConnector(system());
    const browser = openBrowser(system().origins);
    const { url } = await requestAuthorization(system(), { link });
    const { html } = await browser.openConsent(url);
    expect(html)
      .to.match(/up to 5\shours/)
      .and.match(/disconnects after 10\sminutes/);
  });

  it('SES-04 a session ends after the configured time, however often it is used', async () => {
    const now = freezeClock();
    const browser = openBrowser(system().origins);
    const connector = await createConnector(system());
    const { link, client } = await connect(system(), connector, { as: { browser } });
    const [identityProvider] = system().origins.slice(-1);
    for (const [after, isSent] of [
      [15 * MINUTE, false],
      [30 * MINUTE - 1, false],
      [30 * MINUTE + 1, true],
    ] as const) {
      freezeClockAt(now + after);
      browser.visited.length = 0;
      await open(link, client, browser);
      const origins = browser.visited.map(({ origin }) => origin);
      expect(origins.includes(String(identityProvider)), `after ${after} s`).to.equal(isSent);
    }
  });

  it('an unused registration expires after the configured time', async () => {
    const now = freezeClock();
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    freezeClockAt(now + HOUR - 1);
    expect(isSignInPage(await open(link, client))).to.equal(true);
    freezeClockAt(now + HOUR + 10);
    expect((await open(link, client)).status).to.equal(400);
  });

  it('a used registration expires after the configured time', async () => {
    const now = freezeClock();
    const { link, client } = await connect(system(), await createConnector(system()));
    freezeClockAt(now + 6 * HOUR - 1);
    const page = await open(link, client);
    expect(isSignInPage(page) || isConsentPage(page)).to.equal(true);
    freezeClockAt(now + 6 * HOUR + 10);
    expect((await open(link, client)).status).to.equal(400);
  });

  it('each use of a registration renews its lifetime, also if that is shorter than a day', async () => {
    const now = freezeClock();
    const { link, server, client, refreshToken } = await connect(
      system(),
      await createConnector(system()),
    );
    let token = refreshToken;
    for (const hours of [1.5, 3, 4.5]) {
      freezeClockAt(now + hours * HOUR);
      token = (await refresh(server, client, token)).body.refresh_token;
    }
    freezeClockAt(now + 10.5 * HOUR - 1);
    expect(isSignInPage(await open(link, client))).to.equal(true);
    freezeClockAt(now + 10.5 * HOUR + 10);
    expect((await open(link, client)).status).to.equal(400);
  });
});
