import { expect } from 'chai';
import { createMetrics } from '../../src/observability/metrics.ts';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect, obtainCode, registerClient } from '../support/connection.ts';
import { callTool } from '../support/mcp.ts';
import { discover, refresh, requestToken } from '../support/oauth.ts';
import { parseMetrics, readMetrics, type Sample, sumOf } from '../support/metrics.ts';
import { postToken } from '../support/token-endpoints.ts';
import { startSystem, type System, useSystem } from '../support/system.ts';

type Labels = Record<string, string>;

/** Asserts how much a metric grew during `act`. A response is counted when it ends, which is after the client has received it. */
async function growth(system: System, act: () => Promise<unknown>) {
  const before = await readMetrics(system);
  await act();
  const now = async (name: string, labels: Labels) =>
    sumOf(await readMetrics(system), name, labels) - sumOf(before, name, labels);
  return async (name: string, labels: Labels, expected: number) => {
    const what = `${name} ${JSON.stringify(labels)}`;
    await until(what, async () => (await now(name, labels)) >= expected);
    expect(await now(name, labels), what).to.equal(expected);
  };
}

const FLOWS = 'gatehouse_flows_total';

describe('The metrics', () => {
  const system = useSystem();

  it('the metrics count every step of a connection, and tokens by grant type', async () => {
    const connector = await createConnector(system());
    const grew = await growth(system(), async () => {
      const { server, client, refreshToken, accessToken } = await connect(system(), connector);
      await callTool(connector.link, accessToken, 'club_overview');
      await refresh(server, client, refreshToken);
    });
    for (const step of ['register', 'authorize', 'sign-in', 'consent', 'exchange', 'refresh'])
      await grew(FLOWS, { step }, 1);
    await grew(FLOWS, { outcome: 'done' }, 6);
    for (const type of ['authorization_code', 'refresh_token'])
      await grew('gatehouse_tokens_total', { grant_type: type }, 1);
    const { length } = (await readMetrics(system())).filter(
      ({ name }) => name === 'gatehouse_store_seconds_count',
    );
    expect(length).to.be.above(5);
  });

  it('the metrics count denied consents and invalid requests', async () => {
    const connector = await createConnector(system());
    // The first connection to a system discovers its authorization server.
    await obtainCode(system(), connector);
    const grew = await growth(system(), async () => {
      await obtainCode(system(), connector, { decision: 'deny' });
      const { server } = await discover(connector.link);
      const client = await registerClient(server);
      await refresh(server, client, 'unknown');
      await callTool(connector.link, 'unknown', 'club_overview');
    });
    await grew(FLOWS, { step: 'consent', outcome: 'denied' }, 1);
    await grew(FLOWS, { step: 'refresh', outcome: 'refused' }, 1);
    const refused = (host: string, reason: string, times: number) =>
      grew('gatehouse_refusals_total', { host, reason }, times);
    await refused('authorization-server', 'invalid_grant', 1);
    await refused('resource-server', 'invalid_token', 1);
    await refused('resource-server', 'token_required', 1);
  });

  it('the metrics count revocations and ended grants by reason', async () => {
    const connector = await createConnector(system());
    const { server, client, refreshToken } = await connect(system(), connector);
    const grew = await growth(system(), async () => {
      await postToken(server.revocation_endpoint, client, refreshToken ?? '');
      await revokeConnector(system(), connector.id);
    });
    const event = 'gatehouse_events_total';
    await grew(event, { event: 'grant_ended', reason: 'revoked_by_client' }, 1);
    await grew(event, { event: 'connector_revoked', reason: '' }, 1);
    await grew(FLOWS, { step: 'revoke', outcome: 'done' }, 1);
  });

  it('the metrics contain the delay of a revocation notice', async () => {
    const connector = await createConnector(system());
    const grew = await growth(system(), () => revokeConnector(system(), connector.id));
    // The authorization server, the resource server and the cache of searches of one process listen.
    await grew('gatehouse_notice_seconds_count', { channel: 'connectors' }, 3);
  });
});

describe('Metrics of several processes', () => {
  it('the metrics contain the delay of a notice from another process', async () => {
    const settings = { GATEHOUSE_SECRET: 'secret-of-two-processes-0123456789' };
    const one = await startSystem({ store: 'redis', settings });
    let other: System | undefined;
    try {
      other = await startSystem({ storeAddress: one.storeAddress, settings });
      const connector = await createConnector(one);
      const grew = await growth(other, () => revokeConnector(one, connector.id));
      await grew('gatehouse_notice_seconds_count', { channel: 'connectors' }, 3);
      const samples = await readMetrics(other);
      expect(sumOf(samples, 'gatehouse_notice_seconds_sum')).to.be.within(0, 10);
      expect(sumOf(samples, 'gatehouse_events_total', { event: 'connector_revoked' })).to.equal(0);
    } finally {
      await other?.stop();
      await one.stop();
    }
  });
});

describe('Privacy of metrics', () => {
  const system = useSystem();
  const series = (samples: Sample[]) =>
    samples.map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`).toSorted();

  it('no metric has a label value that a client can choose', async () => {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    /** Returns how many of its requests were refused. */
    const strange = async (word: string) => {
      let count = 0;
      await requestToken(server, client, { grant_type: word });
      await refresh(server, client, 'unknown', { resource: word, scope: word });
      for (const base of [system().auth, system().resource, system().management])
        for (const path of [`/${word}`, `/oauth/${word}`, `/oauth/authorize?error=${word}`])
          for (const method of ['GET', 'POST', 'PROPFIND']) {
            const answer = await fetch(base + path, { method, redirect: 'manual' });
            await answer.text();
            count += Number(answer.status >= 400);
          }
      return count;
    };
    const refusals = async () =>
      sumOf(await readMetrics(system()), 'gatehouse_requests_total', { status: '4xx' });
    const before = await refusals();
    const refused = await strange('first');
    await until('all refusals to be counted', async () => (await refusals()) >= before + refused);
    // Not those of Node, which has a series for each kind of garbage collection, nor those of the store, whose commands no client
    // chooses: some happen only now and then.
    const known = async () =>
      series(
        (await readMetrics(system())).filter(
          ({ name }) => name.startsWith('gatehouse_') && !name.startsWith('gatehouse_store_'),
        ),
      );
    const first = await known();
    await strange('second');
    await strange('third');
    expect(await known()).to.deep.equal(first);
  });
});

describe('Metric labels', () => {
  it('a label value outside its closed list is counted as `other`', async () => {
    const metrics = createMetrics(['idle']);
    metrics.refusal('management', 'canary');
    metrics.token('canary');
    metrics.auditEvent('canary', 'canary');
    metrics.auditEvent('grant_ended', 'idle');
    const { text } = await metrics.read();
    expect(text).to.not.include('canary');
    const samples = parseMetrics(text);
    expect(sumOf(samples, 'gatehouse_refusals_total', { reason: 'other' })).to.equal(1);
    expect(sumOf(samples, 'gatehouse_tokens_total', { grant_type: 'other' })).to.equal(1);
    const other = { event: 'other', reason: 'other' };
    expect(sumOf(samples, 'gatehouse_events_total', other)).to.equal(1);
    const known = { event: 'grant_ended', reason: 'idle' };
    expect(sumOf(samples, 'gatehouse_events_total', known)).to.equal(1);
  });
});
