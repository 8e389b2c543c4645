// A process killed between taking a use of a limited link and keeping it costs that one use, for as long as it is reserved.
import { expect } from 'chai';
import { createConnector, showConnector } from '../support/management-api.ts';
import { isConsentPage, type Browser, openBrowser, type Page } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, registerClient } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import {
  startDisposableProcess,
  type DisposableProcess,
} from '../support/faults/disposable-processes.ts';
import { fillForm } from '../support/html-forms.ts';
import { isAccepted } from '../support/mcp.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { rawRequest } from '../support/raw-request.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

/** More than a reservation lasts. */
const GIVEN_BACK_SECONDS = 400;

describe('A process that is killed while somebody approves', () => {
  let redis: RedisServer;
  let place: Deployment;
  let system: System;
  let victim: DisposableProcess;
  before(async () => {
    redis = await startRedis();
    place = await createDeployment({ storeAddress: redis.url });
    place.environment.GATEHOUSE_SECRET = 'a root secret that all processes of this test share';
    system = await startDeployment(place);
    victim = await startDisposableProcess(place.environment, redis);
  });
  afterEach(restoreClock);
  after(async () => {
    await victim?.process.kill();
    await victim?.proxy.close();
    await system?.stop();
    await place?.release();
    await redis?.stop();
  });

  /** Sends the form to the process that is killed when the use is taken and the grant not yet made. */
  async function approveAndKill(browser: Browser, page: Page): Promise<void> {
    const form = page.forms.find(({ controls }) =>
      controls.some(({ name }) => name === 'decision'),
    );
    if (!form) throw new Error('the page has no form to decide with');
    let isTaken = false;
    victim.proxy.setRule(({ name, kind }) => {
      if (isTaken && kind === 'grant' && name !== 'get') return 'hold';
      if (kind === 'connector' && name !== 'get') isTaken = true;
      return 'pass';
    });
    const answered = rawRequest(`http://127.0.0.1:${victim.process.ports.AUTH}`, {
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
    await victim.process.kill();
  }

  it('CNX-04 holds the use it took until that is given back, and the others are free meanwhile', async () => {
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
    const others = openBrowser(system.origins);
    const late = authorizeUrl(server, await registerClient(server), { resource: connector.link });
    expect(isConsentPage(await others.openConsent(late.url, 'grace'))).to.equal(false);

    advanceClock(GIVEN_BACK_SECONDS);
    expect(await state()).to.equal('active');
    const last = await connect(system, connector, { person: 'ada' });
    expect(await isAccepted(connector.link, last.accessToken)).to.equal(true);
    const { uses } = await showConnector(system, connector.id);
    expect([uses, await state()]).to.deep.equal([2, 'used-up']);
  });
});
