// Memory of connectors and recorded calls, and the number of Redis connections.
import type { Redis } from 'ioredis';
import { createConnector } from '../../../src/links/connectors.ts';
import { recordAudit } from '../../../src/audit/audit.ts';
import { auditServices } from '../../support/audit-services.ts';
import type { OpenedStore } from '../../../src/store/open.ts';
import { usedMemory } from './inventory.ts';
import type { Effort } from './options.ts';
import type { Pattern } from './people.ts';

/** Bytes of Redis memory for each, and Redis connections of one process. */
export type OtherSizes = { connector: number; recordedCall: number; connections: number };

export async function measureOtherSizes(
  redis: Redis,
  store: OpenedStore,
  { account, grant }: Pattern,
  { samples }: Effort,
): Promise<OtherSizes> {
  const now = () => Date.now() / 1000;
  const wanted = { name: 'Club figures', level: 'operations' } as const;
  const call = {
    event: 'call',
    account: account.id,
    clientId: grant.grant.clientId,
    connector: grant.connector,
    grantId: String(grant.grant.jti),
    upstream: 'default',
    tool: 'member_visits',
    level: 'full',
    ms: 12,
    bytesIn: 130,
    bytesOut: 1500,
    address: '192.0.2.17',
    userAgent: 'python-httpx/0.28.1',
    clientName: 'Example client',
    argumentsJson: '{"memberId":"M0600"}',
    outcome: 'answered',
  } as const;
  return {
    connector: await bytesOf(redis, samples, () => createConnector(store, wanted, now())),
    recordedCall: await bytesOf(redis, samples, () =>
      recordAudit(auditServices(store, now()), call),
    ),
    connections: await connectionsOfProcess(redis),
  };
}

async function bytesOf(
  redis: Redis,
  samples: number,
  make: () => Promise<unknown>,
): Promise<number> {
  const before = await usedMemory(redis);
  for (let n = 0; n < samples; n += 1) await make();
  return ((await usedMemory(redis)) - before) / samples;
}

/** Without our own connection and those of the store that wrote the people, which has as many as the process. */
async function connectionsOfProcess(redis: Redis): Promise<number> {
  const [, all] = /^connected_clients:(\d+)/m.exec(await redis.info('clients')) ?? [];
  return (Number(all) - 1) / 2;
}
