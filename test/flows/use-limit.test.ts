import { expect } from 'chai';
import { createConnector, showConnector } from '../support/management-api.ts';
import { isConsentPage, openBrowser } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import {
  connect,
  obtainCode,
  openConsent,
  type OpenConsent,
  redeem,
} from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, refresh } from '../support/oauth.ts';
import { onEachStore, useSystem } from '../support/system.ts';

onEachStore('Concurrent approvals on a connector with a use limit', (system) => {
  it('concurrent approvals never exceed the limit', async () => {
    const connector = await createConnector(system(), { maxUses: 3 });
    const opened: OpenConsent[] = [];
    for (let n = 0; n < 8; n += 1)
      opened.push(await openConsent(system(), connector, { person: n % 2 ? 'ada' : 'grace' }));
    const answers = await Promise.all(
      opened.map(async ({ decide, redeem: redeemAt }) => {
        const step = await decide({ decision: 'approve' });
        return step.kind === 'page' ? undefined : redeemAt(step.url);
      }),
    );
    const connected = answers.filter((answer) => answer?.status === 200);
    expect(connected).to.have.length(3);
    const { uses, state } = await showConnector(system(), connector.id);
    expect({ uses, state }).to.deep.equal({ uses: 3, state: 'used-up' });
    for (const answer of connected)
      expect(await isAccepted(connector.link, answer?.body.access_token)).to.equal(true);
  });
});

describe('A connector with a use limit', () => {
  const system = useSystem();

  it('CNX-07 a used-up connector works for connected people', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const { server, client, refreshToken } = await connect(system(), connector);
    const { status, body } = await refresh(server, client, refreshToken);
    expect(status).to.equal(200);
    expect(await isAccepted(connector.link, body.access_token)).to.equal(true);
  });

  it('the same person with the same client takes no second use, and both grants stay active', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const first = await connect(system(), connector);
    const second = await connect(system(), connector, { as: first });
    expect((await showConnector(system(), connector.id)).uses).to.equal(1);
    for (const { accessToken, server, client, refreshToken } of [first, second]) {
      expect(await isAccepted(connector.link, accessToken)).to.equal(true);
      expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    }
  });

  it('CNX-06 calls without a valid token, denials and people without access take no use', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    const other = await connect(system(), await createConnector(system()));
    for (const token of [undefined, 'x', other.accessToken])
      expect(await isAccepted(connector.link, token)).to.equal(false);
    const { server, client } = other;
    const ask = () => authorizeUrl(server, client, { resource: connector.link }).url;
    await openBrowser(system().origins).authorize(ask(), { decision: 'deny' });
    const alan = openBrowser(system().origins);
    expect(isConsentPage(await alan.openConsent(ask(), 'alan'))).to.equal(false);
    const wrong = await obtainCode(system(), connector, { as: other });
    expect((await redeem({ ...wrong, verifier: 'x'.repeat(43) })).status).to.equal(400);
    advanceClock(400);
    const { uses, state } = await showConnector(system(), connector.id);
    expect({ uses, state }).to.deep.equal({ uses: 0, state: 'active' });
  });

  it('an unredeemed code releases its use when it expires', async () => {
    const connector = await createConnector(system(), { maxUses: 1 });
    await obtainCode(system(), connector);
    expect((await showConnector(system(), connector.id)).state).to.equal('used-up');
    advanceClock(120);
    expect((await showConnector(system(), connector.id)).state).to.equal('active');
    const { accessToken } = await connect(system(), connector, { person: 'grace' });
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    expect((await showConnector(system(), connector.id)).uses).to.equal(1);
  });
});
