// Gatehouse in the comparison, on Redis and on SQLite: the bundle of the package. Its MCP server without authorization is another process.
import { managementClient } from '../../../src/management/api/client.ts';
import { startRedis } from '../../support/redis-server.ts';
import {
  METADATA_PATH,
  type Place,
  startGatehouse,
  type StartedGatehouse,
  startGatehouseOn,
} from '../subjects.ts';
import { startUnprotectedServer } from '../tool-calls.ts';
import type { Implementation, Running } from './implementation.ts';
import { agreeInForms } from './forms.ts';

export const gatehouseOnRedis: Implementation = {
  id: 'gatehouse-redis',
  name: 'Gatehouse, Redis',
  isGatehouse: true,
  async start(place) {
    const redis = await startRedis();
    const running = await startWithUnprotectedServer(place, () =>
      startGatehouseOn(redis.url, place),
    );
    const stop = async () => {
      await running.stop();
      await redis.stop();
    };
    return { ...running, store: redis, stop };
  },
};

export const gatehouseOnSqlite: Implementation = {
  id: 'gatehouse-sqlite',
  name: 'Gatehouse, SQLite',
  isGatehouse: true,
  start: (place) => startWithUnprotectedServer(place, () => startGatehouse('sqlite', place)),
};

async function startWithUnprotectedServer(
  place: Place,
  start: () => Promise<StartedGatehouse>,
): Promise<Running> {
  const gatehouse = await start();
  const open = await startUnprotectedServer(place);
  const { server, issuer, origins, resource } = gatehouse;
  return {
    server,
    startedIn: gatehouse.start.serving,
    metadataUrl: issuer + METADATA_PATH,
    origins,
    scope: 'operations offline_access',
    links: [resource, await createLink(gatehouse)],
    open: open.url,
    agree: agreeInForms,
    stop: async () => void (await Promise.all([gatehouse.stop(), open.stop()])),
  };
}

async function createLink({
  management: url,
  managementKey: key,
}: StartedGatehouse): Promise<string> {
  const body = { name: 'second', level: 'operations' } as const;
  return (await managementClient({ url, key }).createConnector({ body })).link;
}
