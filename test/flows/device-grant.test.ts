// The device grant (RFC 8628).
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { isConsentPage, openBrowser, requirePage } from '../support/browser.ts';
import { restoreClock } from '../support/clock.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { createConnector, type Connector } from '../support/management-api.ts';
import { type Client, discover, register, type Server } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('The device grant', () => {
  const system = useSystem();
  let connector: Connector;
  let server: Server;
  let client: Client;
  before(async () => {
    connector = await createConnector(system(), { name: 'Club figures' });
    ({ server } = await discover(connector.link));
    client = await registerDevice();
  });
  afterEach(restoreClock);

  async function registerDevice(more = {}): Promise<Client> {
    const { body } = await register(server, {
      client_name: 'Terminal',
      grant_types: [DEVICE_CODE, 'refresh_token'],
      token_endpoint_auth_method: 'none',
      ...more,
    });
    return { id: body.client_id ?? '', method: 'none', redirectUri: '' };
  }

  const ask = async (more = {}) => {
    const { body } = await askForDevice(server, client, { resource: connector.link, ...more });
    return body;
  };

  it('a device gets tokens for the connect link after a person approved its code', async () => {
    const device = await ask();
    expect((await poll(server, client, device.device_code)).body.error).to.equal(
      'authorization_pending',
    );
    const browser = openBrowser(system().origins);
    const page = await enterCode(browser, device.verification_uri, device.user_code);
    expect(isConsentPage(page)).to.equal(true);
    const done = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(done.html).to.contain('Go back to your device');
    const { body } = await poll(server, client, device.device_code);
    expect(decodeJwt(String(body.access_token)).aud).to.equal(connector.link);
  });
});
