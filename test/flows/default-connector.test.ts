// RFC 8707 section 2.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, revokeConnector, type Connector } from '../support/management-api.ts';
import { isSignInPage, openBrowser, requirePage, type Page } from '../support/browser.ts';
import { restoreClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, requestAuthorization } from '../support/connection.ts';
import { restartSystem } from '../support/restart.ts';
import {
  createDeployment,
  startDeployment,
  type Deployment,
  type System,
} from '../support/system.ts';

const NAME = 'The default link';

describe('The default connector', () => {
  let place: Deployment;
  let system: System;
  let revoked: Connector;
  let chosen: Connector;
  let other: Connector;
  before(async () => {
    place = await createDeployment();
    system = await startDeployment(place);
    revoked = await createConnector(system, { name: NAME });
    chosen = await createConnector(system, { name: NAME, level: 'analytics' });
    other = await createConnector(system, { name: 'Another link' });
    await revokeConnector(system, revoked.id);
  });
  afterEach(restoreClock);
  after(async () => {
    await system?.stop();
    await place.release();
  });

  async function restartWith(defaultConnector: string): Promise<void> {
    await system.stop();
    system = await restartSystem(place, {}, { GATEHOUSE_DEFAULT_CONNECTOR: defaultConnector });
  }

  /** The result of an authorization by a client that sends no resource, or an empty one. */
  async function pageWithout(resource?: ''): Promise<Page> {
    const { url } = await requestAuthorization(system, chosen, { resource });
    return requirePage(await openBrowser(system.origins).visit(url));
  }

  async function audienceWithout(): Promise<unknown> {
    const code = await obtainCode(system, chosen, { parameters: { resource: undefined } });
    const { body } = await redeem(code);
    return decodeJwt(String(body.access_token)).aud;
  }

  it('AUD-04 a request without a resource is refused with an explanation if no default is set', async () => {
    for (const resource of [undefined, ''] as const) {
      const page = await pageWithout(resource);
      expect(page.status).to.equal(400);
      expect(page.html).to.match(/connect link/);
    }
  });

  it('AUD-04 a request without a resource is for the connector whose id is set', async () => {
    await restartWith(other.id);
    expect(await audienceWithout()).to.equal(other.link);
  });

  it('a request without a resource is for the active connector whose name is set', async () => {
    await restartWith(NAME);
    expect(await audienceWithout()).to.equal(chosen.link);
    expect(isSignInPage(await pageWithout(''))).to.equal(true);
  });

  it('the default does not affect requests that name a resource', async () => {
    await restartWith(chosen.id);
    const { accessToken } = await connect(system, other);
    expect(decodeJwt(accessToken).aud).to.equal(other.link);
  });

  it('a request without a resource is refused if the default connector is revoked or does not exist', async () => {
    for (const setting of [revoked.id, 'No such link']) {
      await restartWith(setting);
      expect((await pageWithout()).status, setting).to.equal(400);
    }
  });
});
