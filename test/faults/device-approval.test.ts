// Writes that fail while a person approves a device.
import { expect } from 'chai';
import { isConsentPage, openBrowser, requirePage } from '../support/browser.ts';
import { askForDevice, DEVICE_CODE, enterCode, poll } from '../support/device.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import { createConnector } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover, register } from '../support/oauth.ts';
import { until } from '../support/until.ts';

/** The kind of record, and how many writes of this kind succeed before. */
const FAILED_WRITES = [
  { what: 'the code in the grant', kind: 'grant', before: 1 },
  { what: 'the item in the audit log', kind: 'audit', before: 0 },
];

describe('An approval of a device', () => {
  const proxied = useProxiedSystem();

  async function askAndEnter() {
    const { system } = proxied();
    const { link } = await createConnector(system, { maxUses: 1 });
    const { server } = await discover(link);
    const metadata = { client_name: 'Terminal', grant_types: [DEVICE_CODE, 'refresh_token'] };
    const { body } = await register(server, { ...metadata, token_endpoint_auth_method: 'none' });
    const client = { id: body.client_id ?? '', method: 'none', redirectUri: '' } as const;
    const { body: device } = await askForDevice(server, client, { resource: link });
    const browser = openBrowser(system.origins);
    const enter = () => enterCode(browser, `${system.auth}/device`, device.user_code);
    const approve = async (page: Awaited<ReturnType<typeof enter>>) =>
      requirePage(await browser.submit(page, { decision: 'approve' }));
    const ask = () => poll(server, client, device.device_code);
    return { link, enter, approve, ask };
  }

  for (const { what, kind: failing, before } of FAILED_WRITES)
    it(`LOG-09 without ${what} the device gets nothing, and the person can enter the code again`, async () => {
      const { proxy, system } = proxied();
      const { link, enter, approve, ask } = await askAndEnter();
      const page = await enter();
      let writes = 0;
      proxy.setRule(({ name, kind }) =>
        kind === failing && name !== 'get' && writes++ >= before ? 'cut' : 'pass',
      );
      expect((await approve(page)).status).to.equal(503);
      proxy.setRule();
      await until('the store to work', async () => (await fetch(`${system.auth}/readyz`)).ok);
      expect((await ask()).body.error).to.equal('authorization_pending');
      const again = await enter();
      expect(isConsentPage(again)).to.equal(true);
      // The connections of the store come back one after the other.
      await until('the approval', async () =>
        (await approve(again)).html.includes('Go back to your device'),
      );
      const { body } = await ask();
      expect(await isAccepted(link, body.access_token)).to.equal(true);
    });
});
