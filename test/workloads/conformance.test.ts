import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { useConformanceSuite } from '../support/conformance.ts';
import { createConnector } from '../support/management-api.ts';
import { discover } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { type Members, type Platform, startPlatform } from '../support/workload-platform.ts';

const CLIENT = join(import.meta.dirname, '../support/workload-client.ts');
/** Any: a workload is not registered. */
const CLIENT_ID = 'conformance-wif-workload';

describe('The scenario of the conformance suite for workloads', () => {
  const { runClient } = useConformanceSuite();
  let platform: Platform;
  let system: System;
  let link = '';
  before(async () => {
    platform = await startPlatform();
    const workloads = [
      {
        id: 'conformance',
        match: { subject: 'conformance-workload' },
        connector: 'Conformance',
        level: 'operations',
      },
    ];
    const trustedIssuers = [{ id: 'suite', issuer: platform.issuer, workloads }];
    system = await startSystem({ file: { authorization: { trustedIssuers } } });
    link = (await createConnector(system, { name: 'Conformance', level: 'admin' })).link;
  });
  after(async () => {
    await system?.stop();
    await platform?.stop();
  });

  /** With the claims of the suite: subject, audience and times. */
  async function playClient(changed: Members = {}) {
    const iat = Math.floor(Date.now() / 1000);
    const claims = {
      iss: platform.issuer,
      sub: 'conformance-workload',
      aud: system.auth,
      iat,
      exp: iat + 300,
      ...changed,
    };
    const context = { client_id: CLIENT_ID, valid_jwt: await platform.sign(claims) };
    const child = spawn(process.execPath, [CLIENT, link], {
      env: { ...process.env, MCP_CONFORMANCE_CONTEXT: JSON.stringify(context) },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
    return JSON.parse(output) as { tools?: string[]; error?: string };
  }

  it('WIF-22 a client that passes the scenario auth/wif-jwt-bearer reaches the tools of a connect link', async () => {
    const found = await runClient(`${process.execPath} ${CLIENT}`, 'auth/wif-jwt-bearer');
    expect(
      found.filter(({ status }) => status === 'FAILURE' || status === 'WARNING'),
    ).to.deep.equal([]);
    expect(found.map(({ id }) => id)).to.include('wif-assertion-verified');
    const { tools } = await playClient();
    expect(tools).to.include('club_overview');
  });

  it('WIF-22 the JWT of the scenario for another audience is refused to the client', async () => {
    expect(await playClient({ aud: 'https://wrong.example' })).to.deep.equal({
      error: 'invalid_grant',
    });
  });

  it('WIF-22 the metadata names the grant type of workloads', async () => {
    const { server } = await discover(link);
    expect(server.grant_types_supported).to.include('urn:ietf:params:oauth:grant-type:jwt-bearer');
  });
});
