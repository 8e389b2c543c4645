import { expect } from 'chai';
import { runServer } from './support/main-process.ts';
import { createDeployment, type Deployment } from './support/system.ts';

describe('The startup message', () => {
  let place: Deployment;
  afterEach(() => place.release());

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
    const environment = { ...place.environment, GATEHOUSE_ROLES: 'management' };
    const { stdout } = await runServer(environment, /management .*\n/);
    expect(stdout).to.include(`${management}/console`);
    expect(stdout).to.match(/ management  *http.*\n  console  *http/);
    for (const text of [auth, resource, 'identity provider', 'Connect link'])
      expect(stdout).not.to.include(text);
  });
  it('the message does not mention a console that is off', async () => {
    place = await createDeployment({ file: { management: { administrators: [] } } });
    const { stdout } = await runServer(place.environment, /Ctrl-C/);
    expect(stdout)
      .to.include(place.facts.management)
      .and.not.match(/console/);
  });
});
