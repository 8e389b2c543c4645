import { expect } from 'chai';
import { createConnector, showConnector, type Connector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, type Connection } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';

async function revoke({ server, client, refreshToken }: Connection): Promise<void> {
  const body = new URLSearchParams({ token: String(refreshToken), client_id: client.id });
  const { status } = await fetch(String(server.revocation_endpoint), {
    method: 'POST',
    body,
  });
  expect(status).to.equal(200);
}

async function usesOf(system: System, { id }: Connector) {
  const { uses, state } = await showConnector(system, id);
  return { uses, state };
}

describe('Several approvals on a connector with a use limit', () => {
  const system = useSystem();

  it('two approvals of one person of which only the first code is redeemed take one use', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await obtainCode(system(), connector);
    await obtainCode(system(), connector, { as: first });
    expect((await redeem(first)).status).to.equal(200);
    advanceClock(300);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });

  it('two approvals of one person whose codes are both redeemed take one use', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await obtainCode(system(), connector);
    const second = await obtainCode(system(), connector, { as: first });
    for (const unredeemed of [second, first]) {
      const { status, body } = await redeem(unredeemed);
      expect(status).to.equal(200);
      expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
    }
    advanceClock(300);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });

  it('a person can connect again as long as one of their connections is active', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await connect(system(), connector);
    const second = await connect(system(), connector, { as: first });
    await revoke(first);
    const third = await connect(system(), connector, { as: first });
    for (const { server, client, refreshToken } of [second, third])
      expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });

  it('CNX-05 a person whose connection ended is told that the link has no uses left, and the client gets an error', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const connection = await connect(system(), connector);
    await revoke(connection);
    const { server, client, browser } = connection;
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    const page = requirePage(await browser.visit(url));
    expect(page.status).to.equal(403);
    expect(isConsentPage(page)).to.equal(false);
    expect(page.html).to.match(/used up/i);
    const { searchParams } = requireExternalRedirect(
      await browser.submit(page, { decision: 'deny' }),
    );
    expect(searchParams.get('error')).to.equal('access_denied');
    expect(searchParams.get('error_description')).to.match(/used up/);
  });

  it('a person who loses the race for the last use is told so on the page', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const late = await connect(system(), await createConnector(system()));
    const { url } = authorizeUrl(late.server, late.client, { resource: connector.link });
    const browser = openBrowser(system().origins);
    const page = await browser.openConsent(url, 'grace');
    await connect(system(), connector);
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.html).to.match(/used up/i);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });
});
