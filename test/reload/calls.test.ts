import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { rawRequest } from '../support/raw-request.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { startFastUpstream } from '../support/upstream/fast-upstream.ts';
import type { Upstream } from '../support/upstream/upstream-server.ts';
import { DECLARED } from '../support/upstream/upstream-tools.ts';

/** For the header of a request, until it waits for the body. */
const AUTHENTICATES_MS = 300;

describe('Calls during reloads of the settings', () => {
  let upstream: Upstream;
  let system: System;
  before(async () => {
    upstream = await startFastUpstream();
    system = await startSystem({
      file: {
        entitlements: [{ match: { anyone: true }, level: 'operations' }],
        resourceServer: { upstream: { url: upstream.url, tools: DECLARED } },
      },
    });
    upstream.trustIssuer(system.auth);
  });
  after(async () => {
    await system.stop();
    await upstream.close();
  });

  it('RSV-13 a call whose body comes after its level was taken away is refused', async () => {
    const connector = await createConnector(system);
    const { link, accessToken } = await connect(system, connector);
    expect((await callTool(link, accessToken, 'whoami')).status).to.equal(200);
    const { origin, pathname } = new URL(link);
    const rest = Promise.withResolvers<string>();
    const answer = rawRequest(origin, {
      method: 'POST',
      path: pathname,
      headers: {
        authorization: `Bearer ${accessToken}`,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
      },
      chunks: (async function* () {
        yield '{"jsonrpc":"2.0","id":1,"method":"tools/call",';
        yield await rest.promise;
      })(),
    });
    await delay(AUTHENTICATES_MS);
    changeSettings(system, {
      entitlements: [{ match: { subject: 'grace' }, level: 'operations' }],
    });
    await requestManagement(system, 'POST', '/settings/reload');
    rest.resolve('"params":{"name":"whoami","arguments":{}}}');
    expect((await answer).status).to.equal(401);
  });
});
