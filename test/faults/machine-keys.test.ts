// Writes that fail while an administrator creates a machine or replaces its secret.
import { expect } from 'chai';
import { z } from 'zod';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import {
  createConnector,
  listGrants,
  requestManagement,
  showConnector,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { until } from '../support/until.ts';

const CACHE_SECONDS = 10;

const grantOf = z.object({ clientId: z.string() });

type Machine = { id: string; secret: string; link: string };

/** `after` is the last write before the connection to the store is lost. */
const FAILURES = [
  { what: 'the secret is stored', after: 'evalsha client' },
  { what: 'the new connection is stored', after: 'evalsha grant' },
];

describe('A machine whose store fails', () => {
  const proxied = useProxiedSystem();
  afterEach(restoreClock);

  async function requestToken({ id, secret, link }: Machine): Promise<string> {
    const response = await fetch(`${proxied().system.auth}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', resource: link }),
    });
    const { access_token: token } = (await response.json()) as Record<string, string>;
    return String(token);
  }

  for (const { what, after } of FAILURES)
    it(`a replacement of the secret that fails after ${what} can be repeated, and ends the earlier tokens and connections`, async () => {
      const { proxy, system } = proxied();
      const connector = await createConnector(system);
      const wanted = { name: 'CI', connector: connector.id, level: 'analytics' };
      const machine = (await requestManagement(system, 'POST', '/clients', wanted)) as Machine;
      const token = await requestToken(machine);
      expect(await isAccepted(machine.link, token)).to.equal(true);
      const replace = () => requestManagement(system, 'POST', '/clients/key', { id: machine.id });
      let isReached = false;
      // A read, because the Redis client sends the lost command again when it reconnects.
      proxy.setRule(({ name, kind }) => {
        const isLost = isReached && name === 'get' && ['grant', 'client'].includes(kind);
        isReached ||= `${name} ${kind}` === after;
        if (isLost) proxy.disconnect();
        return isLost ? 'cut' : 'pass';
      });
      const failed = await replace().catch(String);
      proxy.setRule();
      proxy.allowConnections();
      expect(failed).to.contain('503');
      await until('the store to work', async () => (await fetch(`${system.auth}/readyz`)).ok);
      await replace();
      advanceClock(CACHE_SECONDS);
      expect(await isAccepted(machine.link, token)).to.equal(false);
      const { items } = await listGrants(system, { client: machine.id, state: 'active' });
      expect(items).to.have.length(1);
    });

  it('after a creation that failed, the machine that took the use of the connector can get a secret', async () => {
    const { proxy, system } = proxied();
    const connector = await createConnector(system, { maxUses: 1 });
    const wanted = { name: 'CI', connector: connector.id, level: 'analytics' };
    let isConnected = false;
    proxy.setRule(({ name, kind }) => {
      if (isConnected && kind) proxy.disconnect();
      isConnected ||= name !== 'get' && kind === 'grant';
      return 'pass';
    });
    const failed = await requestManagement(system, 'POST', '/clients', wanted).catch(String);
    proxy.setRule();
    proxy.allowConnections();
    expect(failed).to.contain('503');
    await until('the store to work', async () => (await fetch(`${system.auth}/readyz`)).ok);
    const { items } = await listGrants(system, { connector: connector.id, state: 'active' });
    const { clientId: id } = grantOf.parse(items[0]);
    const machine = await requestManagement(system, 'POST', '/clients/key', { id });
    advanceClock(CACHE_SECONDS);
    const token = await requestToken(machine as Machine);
    expect(await isAccepted(connector.link, token)).to.equal(true);
    expect((await showConnector(system, connector.id)).uses).to.equal(1);
  });
});
