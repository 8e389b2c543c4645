import { expect } from 'chai';
import { loadSettings } from '../src/settings/load.ts';
import { startGatehouse } from '../src/server.ts';
import { startupMessage } from '../src/startup-message.ts';
import { runServer } from './support/main-process.ts';
import { createDeployment, type Deployment } from './support/system.ts';

describe('The startup message', () => {
  let place: Deployment;
  afterEach(() => place.release());

  async function messageWith(more: Record<string, string> = {}): Promise<string> {
    const settings = loadSettings({ ...place.environment, ...more });
    const running = await startGatehouse(settings);
    return startupMessage(settings, running).finally(running.stop);
  }

  it('the message lists every host and a connect link if all roles run', async () => {
    place = await createDeployment();
    const { auth, resource, management, origins } = place.facts;
    const { stdout } = await runServer(place.environment, /Ctrl-C/);
    for (const url of [auth, resource, management, ...origins]) expect(stdout).to.include(url);
    expect(stdout).to.match(/Connect link "first"/);
    expect(stdout).to.include(`${management}/console (sign in as Ada Lovelace)\n`);
  });

  it('the message lists only the hosts of the roles that run', async () => {
    place = await createDeployment({ store: 'redis' });
    const { auth, resource, management } = place.facts;
    const message = await messageWith({ GATEHOUSE_ROLES: 'management' });
    expect(message).to.include(`${management}/console`);
    expect(message).to.match(/ management  *http.*\n  console  *http/);
    for (const text of [auth, resource, 'identity provider', 'Connect link'])
      expect(message).not.to.include(text);
  });

  it('the message does not mention a console that is off', async () => {
    place = await createDeployment({ file: { management: { administrators: [] } } });
    expect(await messageWith())
      .to.include(place.facts.management)
      .and.not.match(/console/);
  });
});
