import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, registerClient } from '../support/connection.ts';
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
