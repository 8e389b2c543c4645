import { expect } from 'chai';
import { rotateSigningKeys } from '../../../src/keys/signing-keys.ts';
import { until } from '../../support/until.ts';
import { call } from '../../support/mcp.ts';
import { openSystemStore } from '../../support/system-store.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../../support/system.ts';
import type { Upstream } from '../../support/upstream/upstream-server.ts';
import { PING, startScriptedUpstream } from '../../support/upstream/scripted-upstream.ts';
import { connectPerson } from '../../support/upstream/system.ts';
import { DECLARED } from '../../support/upstream/upstream-tools.ts';

describe('A resource server in a separate process', () => {
  let upstream: Upstream;
  let place: Deployment;
  let parts: System[] = [];
  before(async () => {
    upstream = await startScriptedUpstream();
    const file = { resourceServer: { upstream: { url: upstream.url, tools: DECLARED } } };
    place = await createDeployment({ store: 'redis', file });
    for (const roles of ['resource-server', 'authorization-server,management'])
      parts.push(await startDeployment(place, { GATEHOUSE_ROLES: roles }));
    upstream.trustIssuer(place.facts.auth);
  });
  after(async () => {
    for (const part of parts.splice(0).toReversed()) await part.stop();
    await place?.release();
    await upstream?.close();
  });

  it('the published keys verify its caller header, also after an immediate rotation', async () => {
    const [, system] = parts;
    if (!system) throw new Error('the system runs only during tests');
    const before = await connectPerson(system, 'operations');
    expect((await call(before.link, before.token, PING)).status).to.equal(200);
    const { store } = await openSystemStore(system);
    const now = Date.now() / 1000;
    await rotateSigningKeys(store, { accessTokenLifetime: 3600, atOnce: true }, now);
    await store.close();
    await until('the old key to be rejected', async () => {
      return (await call(before.link, before.token, PING)).status === 401;
    });
    // The test's verifier caches keys, so a new one starts with a cold cache.
    upstream.trustIssuer(place.facts.auth);
    const after = await connectPerson(system, 'operations');
    expect((await call(after.link, after.token, PING)).status).to.equal(200);
    expect(upstream.received.at(-1)?.caller).to.include({ connector: after.connector.id });
  });
});
