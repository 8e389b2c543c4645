import { expect } from 'chai';
import { createConnector, showConnector } from '../support/management-api.ts';
import { isConsentPage, type Browser, openBrowser, type Page } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, registerClient } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import {
  type Disposable,
  startDisposableProcess,
  startDisposableSystem,
} from '../support/faults/disposable-processes.ts';
import { fillForm } from '../support/html-forms.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { SOAK } from '../support/soak.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

/** Longer than a reservation. */
const AFTER_RESERVATION_SECONDS = 400;

describe('A process killed during an approval', () => {
  let redis: RedisServer;
  let deployment: Deployment;
  let system: System;
  let victim: Disposable;
  before(async () => {
    redis = await startRedis();
    deployment = await createDeployment({ storeAddress: redis.url });
    deployment.environment.GATEHOUSE_SECRET = 'a root secret that all processes of this test share';
    system = await startDeployment(deployment);
    const start = SOAK ? startDisposableProcess : startDisposableSystem;
    victim = await start(deployment.environment, redis);
  });
  afterEach(restoreClock);
  after(async () => {
    await victim?.close();
    await system?.stop();
    await deployment?.release();
    await redis?.stop();
  });

  /** Kills the process after it reserved the use and before it writes the grant. */
  async function approveAndKill(browser: Browser, page: Page): Promise<void> {
    const form = page.forms.find(({ controls }) =>
      controls.some(({ name }) => name === 'decision'),
    );
    if (!form) throw new Error('the page has no decision form');
    let isReserved = false;
    victim.proxy.setRule(({ name, kind }) => {
      if (isReserved && kind === 'grant' && name !== 'get') return 'hold';
      if (kind === 'connector' && name !== 'get') isReserved = true;
      return 'pass';
    });
    const answered = rawRequest(victim.address, {
      method: 'POST',
      path: form.action.pathname,
      headers: {
        host: form.action.host,
        origin: form.action.origin,
        cookie: cookieHeader(browser.jar, form.action),
        'content-type': 'application/x-www-form-urlencoded',
      },
      chunks: [fillForm(form, { decision: 'approve' }).toString()],
    }).catch(() => undefined);
    const first = await Promise.race([victim.proxy.whenHeld().then(() => 'held'), answered]);
    expect(first).to.equal('held');
    await victim.kill();
  }

  it('CNX-04 a killed approval holds its use until the reservation expires, and other uses stay available', async () => {
    const connector = await createConnector(system, { maxUses: 2 });
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    const browser = openBrowser(system.origins);
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    await approveAndKill(browser, await browser.openConsent(url, 'ada'));

    const state = async () => (await showConnector(system, connector.id)).state;
    expect(await state()).to.equal('active');
    await connect(system, connector, { person: 'grace' });
    expect(await state()).to.equal('used-up');
    const otherBrowser = openBrowser(system.origins);
    const late = authorizeUrl(server, await registerClient(server), { resource: connector.link });
    expect(isConsentPage(await otherBrowser.openConsent(late.url, 'grace'))).to.equal(false);

    advanceClock(AFTER_RESERVATION_SECONDS);
    expect(await state()).to.equal('active');
    const last = await connect(system, connector, { person: 'ada' });
    expect(await isAccepted(connector.link, last.accessToken)).to.equal(true);
    const { uses } = await showConnector(system, connector.id);
    expect([uses, await state()]).to.deep.equal([2, 'used-up']);
  });
});
