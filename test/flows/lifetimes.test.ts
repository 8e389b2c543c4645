import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, registerClient, type Connection } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover, refresh, type Client } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;

describe('The lifetime of a registration', () => {
  const system = useSystem();

  async function start(client: Client, link: string) {
    const { server } = await discover(link);
    const { url } = authorizeUrl(server, client, { resource: link });
    return requirePage(await openBrowser(system().origins).visit(url));
  }

  it('DCR-03 an unused registration expires after a day, and the page says what to do', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    advanceClock(23 * HOUR);
    expect(isSignInPage(await start(client, link))).to.equal(true);
    advanceClock(2 * HOUR);
    const page = await start(client, link);
    expect(page.status).to.equal(400);
    expect(page.html).to.match(/again/);
    const { status, body } = await refresh(server, client, 'x');
    expect([status, body.error]).to.deep.equal([401, 'invalid_client']);
  });

  it('DCR-03 a used registration expires ninety days after its last use', async () => {
    const connector = await createConnector(system());
    const { server, client, refreshToken } = await connect(system(), connector);
    advanceClock(29 * DAY);
    const { body } = await refresh(server, client, refreshToken);
    expect(body.refresh_token).to.be.a('string');
    advanceClock(85 * DAY);
    expect(isSignInPage(await start(client, connector.link))).to.equal(true);
    advanceClock(6 * DAY);
    expect((await start(client, connector.link)).status).to.equal(400);
  });
});

describe('The lifetime of a refresh token', () => {
  const system = useSystem();

  async function refreshed({ server, client }: Connection, token: string | undefined) {
    const { status, body } = await refresh(server, client, token);
    return status === 200 ? body : body.error;
  }

  it('REF-04 a refresh token expires after thirty days without use', async () => {
    const connection = await connect(system(), await createConnector(system()));
    advanceClock(29 * DAY);
    const once = await refreshed(connection, connection.refreshToken);
    expect(once).to.have.property('access_token');
    advanceClock(31 * DAY);
    const token = typeof once === 'object' ? once.refresh_token : undefined;
    expect(await refreshed(connection, token)).to.equal('invalid_grant');
  });

  it('a refresh token expires after ninety days in all, and its last access token with it', async () => {
    const connection = await connect(system(), await createConnector(system()));
    let token = connection.refreshToken;
    for (const days of [25, 25, 25, 14]) {
      advanceClock(days * DAY);
      const body = await refreshed(connection, token);
      if (typeof body !== 'object') throw new Error(`refused: ${body}`);
      token = body.refresh_token;
    }
    advanceClock(DAY - HOUR / 2);
    const last = await refreshed(connection, token);
    if (typeof last !== 'object') throw new Error(`refused: ${last}`);
    expect(last.expires_in).to.be.within(1, HOUR / 2);
    expect(await isAccepted(connection.link, last.access_token)).to.equal(true);
    advanceClock(HOUR);
    const { status } = await callTool(connection.link, last.access_token, 'club_overview');
    expect(status).to.equal(401);
    expect(await refreshed(connection, last.refresh_token)).to.equal('invalid_grant');
  });
});
