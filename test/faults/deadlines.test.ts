import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { meetsDeadline } from '../support/deadlines.ts';
import {
  type EveryRequest,
  prepareEveryRequest,
  statusesWhen,
} from '../support/faults/every-request.ts';
import { useProxiedSystem } from '../support/faults/proxied-system.ts';
import { createConnector } from '../support/management-api.ts';
import { refresh } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

async function prepare(system: System): Promise<EveryRequest> {
  return prepareEveryRequest(system, await createConnector(system));
}

/** Measures the first requests of an outage, for which the store has its whole timeout. */
async function expectInTime(
  { prepared, works }: { prepared: EveryRequest; works: Parameters<typeof statusesWhen>[0] },
  outage: { begin: () => unknown; end: () => unknown },
): Promise<void> {
  await meetsDeadline('storeOutage', async () => {
    await outage.begin();
    // The decision is sent after the others.
    const { decision: _, ...expected } = statusesWhen(works);
    expect(await prepared.sendAtOnce().finally(outage.end)).to.deep.equal(expected);
  });
}

describe('The time of a response during an outage of Redis', () => {
  const proxied = useProxiedSystem();

  it('every request gets its response within 1.5 s while Redis is frozen', async () => {
    const { system, redis } = proxied();
    const prepared = await prepare(system);
    await expectInTime(
      { prepared, works: [] },
      { begin: () => redis.kill('SIGSTOP'), end: () => redis.kill('SIGCONT') },
    );
  });

  it('every request gets its response within 1.5 s while Redis does not reply on open connections', async () => {
    const { system, proxy } = proxied();
    await until('Redis to work', async () => (await fetch(`${system.auth}/readyz`)).ok);
    const prepared = await prepare(system);
    await expectInTime(
      { prepared, works: [] },
      { begin: () => proxy.setRule(() => 'drop'), end: () => proxy.setRule() },
    );
  });
});

describe('The time of a response while another program locks the SQLite file', () => {
  const system = useSystem();

  it('a refresh gets its response within 1.5 s while another program locks the file', async () => {
    const { server, client, refreshToken } = await connect(
      system(),
      await createConnector(system()),
    );
    const other = new DatabaseSync(system().storeAddress.slice('sqlite:'.length));
    try {
      await meetsDeadline('storeOutage', async () => {
        other.exec('BEGIN IMMEDIATE');
        const { status } = await refresh(server, client, refreshToken).finally(() =>
          other.exec('ROLLBACK'),
        );
        expect(status).to.equal(503);
      });
    } finally {
      other.close();
    }
  });
});
