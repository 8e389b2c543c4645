// Whose use of a limited connect link counts, and when: several approvals of one person, grants that ended, and what the page says then.
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
import { onEachStore, type System } from '../support/system.ts';

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

onEachStore('A holder of a limited connect link', (system) => {
  it('who approves twice and redeems only the first code has used it up all the same', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await obtainCode(system(), connector);
    await obtainCode(system(), connector, { as: first });
    expect((await redeem(first)).status).to.equal(200);
    advanceClock(300);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });

  it('may redeem both codes of two approvals, for one use', async () => {
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

  it('may connect again as long as one of several connections stands', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await connect(system(), connector);
    const second = await connect(system(), connector, { as: first });
    await revoke(first);
    const third = await connect(system(), connector, { as: first });
    for (const { server, client, refreshToken } of [second, third])
      expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    expect(await usesOf(system(), connector)).to.deep.equal({ uses: 1, state: 'used-up' });
  });

  it('CNX-05 whose connection ended is told that the link is used up, on the page and in the answer to the client', async () => {
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

  it('loses the race for the last use at the page, which says so', async () => {
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
