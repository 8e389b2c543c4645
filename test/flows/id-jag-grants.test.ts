import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { ID_JAG_ERRORS } from '../../src/oauth/engine/id-jag-validation.ts';
import { grantLifetimes } from '../../src/connections/grant-lifetime.ts';
import { narrowGrant } from '../../src/connections/grants.ts';
import {
  type Connector,
  createConnector,
  listGrants,
  requestManagement,
  readAudit,
  showConnector,
  showGrant,
} from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { isAccepted } from '../support/mcp.ts';
import { discover } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import type { System } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import type { IdJagIssuer } from '../support/id-jag-issuer.ts';
import { APP, OTHER, useIdJag } from '../support/id-jag-system.ts';
import { until } from '../support/until.ts';
import { DEFAULT_LEVELS } from '../support/levels.ts';

describe('A grant from an ID-JAG', () => {
  const { setup, claimsFor, presentAssertion, signAndPresent, obtainToken, forgetUse } = useIdJag();
  let system: System;
  let idp: IdJagIssuer;
  let connector: Connector;
  before(() => {
    ({ system, idp, connector } = setup());
  });

  it('further assertions for one person and client renew one grant', async () => {
    const first = await obtainToken('often');
    advanceClock(5 * 86_400);
    const second = await obtainToken('often');
    expect(second.grantId).to.equal(first.grantId);
    const { items } = await listGrants(system, { account: String(first.claims.sub) });
    expect(items).to.have.lengthOf(1);
    expect(items[0]).to.include({ id: first.grantId, state: 'active', clientName: 'The app' });
    expect(await isAccepted(connector.link, second.token)).to.equal(true);
  });

  it('an assertion after a month without use creates a new grant', async () => {
    const first = await obtainToken('rare');
    advanceClock(31 * 86_400);
    expect(await showGrant(system, first.grantId)).to.include({ state: 'ended', reason: 'idle' });
    expect((await obtainToken('rare')).grantId).to.not.equal(first.grantId);
  });

  it('an assertion does not raise a level that the person lowered', async () => {
    const { grantId, token } = await obtainToken('lowerer');
    const { store } = await openSystemStore(system);
    const lifetimes = grantLifetimes({ accessToken: 3600, refreshTokenIdle: 30 * 86_400 });
    const limit = { level: 'analytics', stays: true } as const;
    await narrowGrant(store, DEFAULT_LEVELS, grantId, limit, { lifetimes, now: Date.now() / 1000 });
    await store.close();
    // Longer than a process caches the record.
    advanceClock(15);
    expect(await isAccepted(connector.link, token)).to.equal(false);
    const next = await obtainToken('lowerer');
    expect([next.grantId, next.body.scope]).to.deep.equal([grantId, 'analytics']);
    expect(await isAccepted(connector.link, next.token)).to.equal(true);
  });

  it('one person with one client takes one use of the connector', async () => {
    const { id, link } = await createConnector(system, { maxUses: 2 });
    await Promise.all([1, 2, 3].map(() => obtainToken('first', { resource: link })));
    await obtainToken('second', { resource: link });
    await until(
      'both uses to be recorded',
      async () => (await showConnector(system, id)).uses === 2,
    );
    expect((await signAndPresent('third', { resource: link })).body.error_description).to.equal(
      ID_JAG_ERRORS.used_up.description,
    );
    await obtainToken('first', { resource: link });
    expect((await showConnector(system, id)).uses).to.equal(2);
  });

  it('each grant has one audit event, which names the person', async () => {
    const { grantId, claims } = await obtainToken('audited');
    await obtainToken('audited');
    const items = (await readAudit(system)).filter((item) => item.grantId === grantId);
    expect(items).to.have.lengthOf(1);
    expect(items[0]).to.deep.include({
      event: 'grant_vouched',
      account: claims.sub,
      clientId: APP.id,
      connector: connector.id,
      grantId,
      arguments: { level: 'operations', client: 'The app' },
      outcome: 'granted',
    });
  });

  it('EMA-05 an assertion cannot renew a grant that an administrator ended, and a new assertion creates a new grant', async () => {
    const { token, grantId } = await obtainToken('ended');
    await requestManagement(system, 'DELETE', `/grants/${grantId}`);
    expect(await isAccepted(connector.link, token)).to.equal(false);
    expect(await showGrant(system, grantId)).to.include({ state: 'ended' });
    const again = await obtainToken('ended');
    expect(again.grantId).to.not.equal(grantId);
    expect(await isAccepted(connector.link, again.token)).to.equal(true);
  });

  it('REF-06 a client can revoke only its own access token', async () => {
    const { token } = await obtainToken('revoker');
    const { server } = await discover(connector.link);
    await postToken(server.revocation_endpoint, OTHER, token);
    expect(await isAccepted(connector.link, token)).to.equal(true);
    await postToken(server.revocation_endpoint, APP, token);
    await until('the token to be refused', async () => !(await isAccepted(connector.link, token)));
  });

  it('EMA-03 of concurrent requests with one assertion, one succeeds', async () => {
    const { id, link } = await createConnector(system);
    const assertion = await idp.sign(claimsFor('racer', { resource: link }));
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => presentAssertion(assertion)),
    );
    const good = answers.filter(({ status }) => status === 200);
    expect(good).to.have.lengthOf(1);
    const refused = answers.filter(({ status }) => status !== 200);
    expect(new Set(refused.map(({ body }) => body.error_description))).to.deep.equal(
      new Set([ID_JAG_ERRORS.replayed.description]),
    );
    expect((await listGrants(system, { connector: id })).items).to.have.lengthOf(1);
    await until('the use to be recorded', async () => (await showConnector(system, id)).uses > 0);
    expect((await showConnector(system, id)).uses).to.equal(1);
    const recorded = (await readAudit(system)).filter((item) => item.connector === id);
    expect(recorded.filter(({ event }) => event === 'grant_vouched')).to.have.lengthOf(1);
  });

  it('an assertion can be presented again if the process stopped before recording its use', async () => {
    const { id, link } = await createConnector(system, { maxUses: 1 });
    const claims = claimsFor('repeater', { resource: link });
    const assertion = await idp.sign(claims);
    const grantIds = [];
    for (const _time of [1, 2]) {
      const { body } = await presentAssertion(assertion);
      const { sub: account, grant_id: grantId } = decodeJwt(body.access_token ?? '');
      grantIds.push(grantId);
      await forgetUse(claims, `vouched-grant:${id} ${account} operations ${APP.id}`);
    }
    const recorded = (await readAudit(system)).filter((item) => item.connector === id);
    expect(recorded.map(({ event }) => event)).to.deep.equal([
      'connector_created',
      'grant_vouched',
    ]);
    expect(new Set(grantIds).size).to.equal(1);
    expect((await listGrants(system, { connector: id })).items).to.have.lengthOf(1);
    expect((await showConnector(system, id)).uses).to.equal(1);
  });
});
