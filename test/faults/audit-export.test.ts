// The audit log while its store does not answer, and while the disk takes nothing.
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { auditItem, storeAudit } from '../../src/audit/audit.ts';
import { spawnGatehouse } from '../management/command-line.ts';
import { auditServices } from '../support/audit-services.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { startSystem, type System } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';

const ITEMS = 60;

describe('An export of the audit log', () => {
  let redis: RedisServer;
  let system: System;
  before(async () => {
    redis = await startRedis();
    system = await startSystem({ storeAddress: redis.url });
    const { store } = await openSystemStore(system);
    const services = auditServices(store, Date.now() / 1000);
    const argumentsJson = JSON.stringify('x'.repeat(500_000));
    for (let count = 0; count < ITEMS; count += 1) {
      const item = auditItem(services, { event: 'call', outcome: 'answered', argumentsJson });
      await storeAudit(services, [{ item, part: 'bulk' }]);
    }
    await store.close();
  });
  after(async () => {
    await system?.stop();
    await redis?.stop();
  });

  const exportCalls = () => {
    const { management: GATEHOUSE_MANAGEMENT_URL, managementKey: GATEHOUSE_MANAGEMENT_KEY } =
      system;
    const { PATH = '' } = process.env;
    const env = { PATH, GATEHOUSE_MANAGEMENT_URL, GATEHOUSE_MANAGEMENT_KEY };
    return spawnGatehouse(['audit', 'export', '--event', 'call'], env);
  };

  it('LOG-18 ends with an error if the store stops answering, and is whole when it answers again', async () => {
    const cut = exportCalls();
    const closed = once(cut, 'close');
    const errors = text(cut.stderr);
    await once(cut.stdout, 'readable');
    redis.kill('SIGSTOP');
    let lines = '';
    try {
      lines = await text(cut.stdout);
      await closed;
    } finally {
      redis.kill('SIGCONT');
    }
    expect(cut.exitCode).to.equal(1);
    expect(await errors).to.match(
      /ended its answer early, so that what was written is not complete/,
    );
    expect(lines.split('\n').length).to.be.below(ITEMS);
    await until('a whole export', async () => {
      const whole = exportCalls();
      const found = await text(whole.stdout);
      return found.trimEnd().split('\n').length === ITEMS + 1;
    });
  });
});
