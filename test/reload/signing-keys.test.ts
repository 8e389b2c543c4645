import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

/** The hosts of the settings before have no request, so they close at once. */
const CLOSES_MS = 1000;

describe('A process that is only a resource server', () => {
  let upstream: Upstream;
  before(async () => {
    upstream = await startFastUpstream();
  });
  after(() => upstream.close());
  const system = useProcesses(() => ({
    store: 'redis',
    count: 1,
    kinds: [
      { GATEHOUSE_ROLES: 'authorization-server,management' },
      { GATEHOUSE_ROLES: 'resource-server' },
    ],
    inThisProcess: true,
  }));

  it('refuses tokens of a removed signing key after a reload that adds the first MCP server', async () => {
    upstream.trustIssuer(system().auth);
    const connector = await createConnector(system(), { level: 'full' });
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    const { link, accessToken } = await connect(system(), connector, { level: 'operations' });
    const status = async () => (await callTool(link, accessToken, 'whoami')).status;
    expect(await status()).to.equal(200);
    changeSettings(system(), {
      entitlements,
      resourceServer: { upstream: { url: upstream.url, tools: DECLARED } },
    });
    await requestManagement(system(), 'POST', '/settings/reload');
    expect(await status()).to.equal(200);
    await delay(CLOSES_MS);
    await requestManagement(system(), 'POST', '/keys/rotate', { atOnce: true });
    await until('the token to be refused', async () => (await status()) === 401);
  });
});
