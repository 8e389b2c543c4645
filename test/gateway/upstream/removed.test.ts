import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { connect } from '../../support/connection.ts';
import { call } from '../../support/mcp.ts';
import { createConnector, listGrants, showConnector } from '../../support/management-api.ts';
import { refresh } from '../../support/oauth.ts';
import { restartSystem } from '../../support/restart.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../../support/system.ts';
import {
  PING,
  type ScriptedUpstream,
  startScriptedUpstream,
} from '../../support/upstream/scripted-upstream.ts';

describe('An upstream that is removed from the settings', () => {
  let upstream: ScriptedUpstream;
  let place: Deployment;
  let system: System;
  before(async () => {
    upstream = await startScriptedUpstream();
    place = await createDeployment();
    system = await startDeployment(place);
    upstream.trustIssuer(system.auth);
  });
  after(async () => {
    await system.stop();
    await place.release();
    await upstream.close();
  });

  async function restart(resourceServer: object): Promise<void> {
    await system.stop();
    system = await restartSystem(place, { resourceServer });
  }

  const listed = (...ids: string[]) => ({
    upstreams: ids.map((id) => ({ id, url: upstream.url, defaultLevel: 'analytics' })),
  });

  it('UPS-12 its connect links return 410, its refreshes fail and its minted tokens return 401 until it is back', async () => {
    await restart(listed('orders', 'tickets'));
    const connector = await createConnector(system, { upstream: 'tickets' });
    const minted = await mint(system, { upstream: 'tickets' });
    const { link } = connector;
    const { server, client, accessToken, refreshToken = '' } = await connect(system, connector);
    const statuses = async () => [
      (await call(link, accessToken, PING)).status,
      (await call(addressOf(system), minted.token, PING)).status,
    ];
    expect(await statuses()).to.deep.equal([200, 200]);

    await restart(listed('orders'));
    const before = upstream.received.length;
    expect(await statuses()).to.deep.equal([410, 401]);
    const gone = await call(link, accessToken, PING);
    expect(gone.text).to.include('no longer configured; ask for a fresh one');
    const page = await fetch(link, { headers: { accept: 'text/html' } });
    expect(page.status).to.equal(410);
    expect(await page.text()).to.include('<h1>This connect link no longer works</h1>');
    expect(gone.headers.get('www-authenticate')).to.equal(null);
    const metadata = link.replace('/connect/', '/.well-known/oauth-protected-resource/connect/');
    expect((await fetch(metadata)).status).to.equal(404);
    expect((await showConnector(system, connector.id)).state).to.equal('unconfigured');
    const [grant] = (await listGrants(system, { connector: connector.id })).items;
    expect(grant).to.include({ state: 'refused', reason: 'connector_unconfigured' });
    const refused = await refresh(server, client, refreshToken);
    expect(refused.body).to.include({ error: 'invalid_grant' });
    expect(upstream.received).to.have.length(before);

    await restart(listed('orders', 'tickets'));
    expect(await statuses()).to.deep.equal([200, 200]);
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
  });

  it('UPS-12 a record without an upstream leads to the upstream with the id default, and to no other', async () => {
    await restart({});
    const connector = await createConnector(system);
    const minted = await mint(system);
    expect([connector.upstream, minted.upstream]).to.deep.equal([undefined, undefined]);
    const { accessToken } = await connect(system, connector);
    const statuses = async () => [
      (await call(connector.link, accessToken, PING)).status,
      (await call(addressOf(system), minted.token, PING)).status,
    ];
    const cases: [settings: object, statuses: number[], served: number][] = [
      [{ upstream: { url: upstream.url } }, [200, 200], 2],
      [listed('orders', 'default'), [200, 200], 2],
      [listed('orders'), [410, 401], 0],
    ];
    for (const [settings, expected, served] of cases) {
      await restart(settings);
      const before = upstream.received.length;
      expect(await statuses()).to.deep.equal(expected);
      expect(upstream.received).to.have.length(before + served);
    }
  });

  it('UPS-12 the sample does not serve the connect links and minted tokens of an upstream', async () => {
    await restart({ upstream: { url: upstream.url } });
    const connector = await createConnector(system);
    expect(connector.upstream).to.equal('default');
    const minted = await mint(system);
    const { accessToken } = await connect(system, connector);
    await restart({});
    expect((await call(connector.link, accessToken, PING)).status).to.equal(410);
    expect((await call(addressOf(system), minted.token, PING)).status).to.equal(401);
  });
});
