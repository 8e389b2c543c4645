import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { connect } from '../support/connection.ts';
import { meetsDeadline, outcomeOf } from '../support/deadlines.ts';
import { prepareEveryRequest, statusesWhen } from '../support/faults/every-request.ts';
import { type ProxiedSystem, useProxiedSystem } from '../support/faults/proxied-system.ts';
import { createConnector } from '../support/management-api.ts';
import { refresh } from '../support/oauth.ts';
import { type System, useSystem } from '../support/system.ts';

/** Prepares an outage. The returned function measures it. */
type Outage = () => Promise<() => Promise<void>>;

async function prepareOutage(
  { system }: ProxiedSystem,
  outage: { begin: () => unknown; end: () => unknown },
) {
  const prepared = await prepareEveryRequest(system, await createConnector(system));
  // The decision is sent after the others.
  const { decision: _, ...expected } = statusesWhen([]);
  return () =>
    meetsDeadline('storeOutage', async () => {
      await outage.begin();
      expect(await prepared.sendAtOnce().finally(outage.end)).to.deep.equal(expected);
    });
}

async function prepareLock(system: System) {
  const { server, client, refreshToken } = await connect(system, await createConnector(system));
  return async () => {
    const other = new DatabaseSync(system.storeAddress.slice('sqlite:'.length));
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
  };
}

describe('The time of a response during an outage of the store', () => {
  const frozen = useProxiedSystem();
  const silent = useProxiedSystem();
  const locked = useSystem();

  const OUTAGES: Record<string, Outage> = {
    'every request gets its response within 1.5 s while Redis is frozen': () =>
      prepareOutage(frozen(), {
        begin: () => frozen().redis.kill('SIGSTOP'),
        end: () => frozen().redis.kill('SIGCONT'),
      }),
    'every request gets its response within 1.5 s while Redis does not reply on open connections':
      () =>
        prepareOutage(silent(), {
          begin: () => silent().proxy.setRule(() => 'drop'),
          end: () => silent().proxy.setRule(),
        }),
    'a refresh gets its response within 1.5 s while another program locks the SQLite file': () =>
      prepareLock(locked()),
  };

  // The outages happen at the same time, because each waits for its timeout.
  const measured = new Map<string, Promise<void>>();
  before(async () => {
    const ready: [string, () => Promise<void>][] = [];
    for (const [title, prepare] of Object.entries(OUTAGES)) ready.push([title, await prepare()]);
    for (const [title, measure] of ready) measured.set(title, measure());
    await Promise.allSettled(measured.values());
  });

  for (const title of Object.keys(OUTAGES)) it(title, () => outcomeOf(measured, title));
});
