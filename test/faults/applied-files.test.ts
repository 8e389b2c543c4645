// Files that are applied while the store fails, or whose process is killed.
import { expect } from 'chai';
import type { Applied, ExportedFile, Kind } from '../../src/management/resources/apply.ts';
import { KINDS } from '../../src/management/resources/apply.ts';
import { type PersistentRedis, startPersistentRedis } from '../support/faults/persistent-redis.ts';
import { requestManagement } from '../support/management-api.ts';
import { rawRequest } from '../support/raw-request.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { startGatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { SOAK } from '../support/soak.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  startSystem,
  type System,
} from '../support/system.ts';
import { until } from '../support/until.ts';

type Managed = Pick<System, 'management' | 'managementKey'>;

/** In the order of an export. */
function fileOf(count: number): ExportedFile {
  const keys = Array.from({ length: count }, (_, n) => `record-${String(n).padStart(3, '0')}`);
  const expiresAt = new Date(Math.ceil(Date.now() / 1000 + 30 * 86_400) * 1000).toISOString();
  return {
    connectors: keys.map((key) => ({ key, name: key, level: 'operations' })),
    machines: keys.map((key) => ({
      key,
      name: key,
      connector: key,
      level: 'analytics',
      jwksUri: 'https://keys.example.com/jwks.json',
      expiresAt,
    })),
    clientRules: keys.map((key) => ({ key, effect: 'block', host: `${key}.example` })),
  };
}

const exported = async (system: Managed) =>
  (await requestManagement(system, 'GET', '/export')) as ExportedFile;

function actionsIn(applied: Applied): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { action } of KINDS.flatMap((kind) => applied[kind]))
    counts[action] = (counts[action] ?? 0) + 1;
  return counts;
}

/** Repeats a request that is refused while the lock of an earlier one is kept. */
async function apply(system: Managed, file: object, query = ''): Promise<Applied> {
  let applied: Applied | undefined;
  await until('the file is applied', async () => {
    const path = `${system.management}/api/v1/apply${query}`;
    const answer = await fetch(path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${system.managementKey}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(file),
    });
    const body = (await answer.json()) as Applied & { error?: string };
    if (answer.status === 200) applied = body;
    else expect(body.error).to.equal('apply_in_progress');
    return answer.status === 200;
  });
  if (!applied) throw new Error('the file was not applied');
  return applied;
}

const untilMade = (system: Managed, kind: Kind, count: number) =>
  until(`${count} ${kind} are made`, async () => (await exported(system))[kind].length >= count);

describe('A file that is applied while Redis becomes full', () => {
  let redis: PersistentRedis;
  let system: System;
  before(async () => {
    redis = await startPersistentRedis();
    // Without a proxy in this process: it would not pass on a reply while the process is busy, and the last request has to succeed.
    system = await startSystem({ storeAddress: redis.url });
  });
  after(async () => {
    await system?.stop();
    await redis?.close();
  });

  it('APL-06 has failures for what could not be written, and the next run does the rest', async () => {
    const before = await exported(system);
    const file = fileOf(150);
    const applying = apply(system, file);
    await untilMade(system, 'connectors', before.connectors.length + 10);
    await redis.command('CONFIG', 'SET', 'maxmemory', 1);
    const first = await applying;
    await redis.command('CONFIG', 'SET', 'maxmemory', 0);
    const { created = 0, failed = 0 } = actionsIn(first);
    expect(created).to.be.at.least(10);
    expect(failed).to.be.at.least(300);
    const reasons = first.machines.map(({ error }) => error);
    expect(reasons).to.include('temporarily_unavailable');
    const second = actionsIn(await apply(system, file));
    expect(second['failed'] ?? 0).to.equal(0);
    expect(actionsIn(await apply(system, file))).to.deep.equal({ unchanged: 450 });
    const after = await exported(system);
    expect({
      ...after,
      connectors: after.connectors.filter(({ key }) => key.startsWith('record-')),
    }).to.deep.equal(file);
  });
});

describe('A file whose process is killed while it is applied', () => {
  let redis: RedisServer;
  let deployment: Deployment;
  let system: System;
  before(async () => {
    redis = await startRedis();
    deployment = await createDeployment({ storeAddress: redis.url });
    deployment.environment.GATEHOUSE_SECRET = 'a root secret that all processes of this test share';
    system = await startDeployment(deployment);
  });
  after(async () => {
    await system?.stop();
    await deployment?.release();
    await redis?.stop();
  });

  for (const kind of SOAK ? KINDS : (['machines'] as const))
    it(`APL-06 is finished by the next run, killed among its ${kind}`, async () => {
      const before = await exported(system);
      const file = fileOf(150);
      const victim = await startGatehouseProcess({
        ...deployment.environment,
        GATEHOUSE_ROLES: 'management',
      });
      try {
        const answered = rawRequest(`http://127.0.0.1:${victim.ports.MANAGEMENT}`, {
          method: 'POST',
          path: '/api/v1/apply',
          headers: {
            host: new URL(system.management).host,
            authorization: `Bearer ${system.managementKey}`,
            'content-type': 'application/json',
          },
          chunks: [JSON.stringify(file)],
        }).catch(() => undefined);
        await untilMade(system, kind, before[kind].length + 10);
        await victim.kill();
        await answered;
      } finally {
        await victim.kill();
      }
      expect((await exported(system)).clientRules.length).to.be.below(150);
      const second = actionsIn(await apply(system, file));
      expect(second['failed'] ?? 0).to.equal(0);
      expect(second['unchanged']).to.be.at.least(10);
      expect(actionsIn(await apply(system, file))).to.deep.equal({ unchanged: 450 });
      const after = await exported(system);
      expect({
        ...after,
        connectors: after.connectors.filter(({ key }) => key.startsWith('record-')),
      }).to.deep.equal(file);
      await apply(
        system,
        { connectors: [], machines: [], clientRules: [] },
        '?prune=true&pruneLimit=450',
      );
    }).timeout(90_000);
});
