// Gatehouse in the comparison, as `npm start` runs it, on Redis and on SQLite, with its MCP server without authorization beside it.
import { managementClient } from '../../../src/management/api/client.ts';
import { freePorts } from '../../support/free-ports.ts';
import { startRedis } from '../../support/redis-server.ts';
import { untilAnswered } from '../server-process.ts';
import {
  METADATA_PATH,
  type Place,
  type Program,
  startGatehouse,
  type StartedGatehouse,
  startGatehouseOn,
} from '../subjects.ts';
import type { Implementation, Running } from './implementation.ts';
import { agreeInForms } from './forms.ts';

export const gatehouseOnRedis: Implementation = {
  id: 'gatehouse-redis',
  name: 'Gatehouse, Redis',
  isGatehouse: true,
  async start(place) {
    const redis = await startRedis();
    const running = await startWithUnprotectedServer(place, (program) =>
      startGatehouseOn(redis.url, place, program),
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
  start: (place) =>
    startWithUnprotectedServer(place, (program) => startGatehouse('sqlite', place, program)),
};

async function startWithUnprotectedServer(
  { logLevel }: Place,
  start: (program: Program) => Promise<StartedGatehouse>,
): Promise<Running> {
  const [port] = await freePorts(1);
  const script = 'test/bench/gatehouse-and-unprotected-server.ts';
  const gatehouse = await start({ script, args: [String(port), logLevel] });
  const open = `http://localhost:${port}`;
  await untilAnswered(gatehouse.server, `${open}/livez`);
  const { server, issuer, origins, resource, stop } = gatehouse;
  return {
    server,
    startedIn: gatehouse.start.serving,
    metadataUrl: issuer + METADATA_PATH,
    origins,
    scope: 'operations offline_access',
    links: [resource, await createLink(gatehouse)],
    open: `${open}/mcp`,
    agree: agreeInForms,
    stop,
  };
}

async function createLink({
  management: url,
  managementKey: key,
}: StartedGatehouse): Promise<string> {
  const body = { name: 'second', level: 'operations' } as const;
  return (await managementClient({ url, key }).createConnector({ body })).link;
}
