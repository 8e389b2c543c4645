// A Redis, one Gatehouse process, and access to store, addresses and lists.
import { readFileSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { parse } from 'yaml';
import type { OpenedStore } from '../../../src/store/open.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { startRedis } from '../../support/redis-server.ts';
import { openClient, type BenchClient } from '../client.ts';
import { startGatehouseOn, type StartedGatehouse } from '../subjects.ts';
import type { Gatehouse } from './measurement.ts';

export type Deployment = Gatehouse & {
  subject: StartedGatehouse;
  /** The person who connects through the real flow. */
  client: BenchClient;
  redis: Redis;
  store: OpenedStore;
  secret: string;
  stop(): Promise<void>;
};

const DEVELOPMENT = join(import.meta.dirname, '../../../config/development.yaml');

export async function openDeployment(root: string): Promise<Deployment> {
  const server = await startRedis();
  const config = join(await mkdtemp(join(root, 'settings-')), 'settings.yaml');
  // Everyone at the identity provider may connect.
  const entitlements = [{ match: { anyone: true }, level: 'operations' }];
  const settings = { ...parse(readFileSync(DEVELOPMENT, 'utf8')), entitlements };
  await writeFile(config, JSON.stringify(settings));
  const subject = await startGatehouseOn(server.url, { root, logLevel: 'warn' }, { config });
  const { directory: dataDir } = subject;
  const { store, secret } = await openSystemStore({ storeAddress: server.url, dataDir });
  const client = await openClient(subject);
  const redis = new Redis(server.url);
  return {
    subject,
    client,
    redis,
    store,
    secret,
    agent: new Agent({ keepAlive: true }),
    tokenEndpoint: client.tokenEndpoint,
    async stop() {
      redis.disconnect();
      await store.close();
      await subject.stop();
      await server.stop();
    },
  };
}
