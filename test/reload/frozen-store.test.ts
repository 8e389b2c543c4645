// Redis stops answering between the check of a reload and its start.
import { expect } from 'chai';
import { type Command, type RedisProxy, startRedisProxy } from '../support/faults/redis-proxy.ts';
import { requestManagement, readAudit } from '../support/management-api.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { SLOWER_STORE } from '../support/scale-out/gatehouse-process.ts';
import { type Processes, startProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';

/** 503, or whether the process sees others with the same settings. */
async function readiness(url: string): Promise<number | string> {
  const response = await fetch(`${url}/readyz`);
  const { settings = 'same' } = (await response.json()) as { settings?: string };
  return response.ok ? settings : response.status;
}

async function titleOf(url: string): Promise<string> {
  const home = await fetch(url, { headers: { accept: 'text/html' } });
  return /<title>([^<]*)/.exec(await home.text())?.[1] ?? '';
}

describe('A reload while Redis stops answering', () => {
  let redis: RedisServer;
  let proxy: RedisProxy;
  let system: Processes;
  before(async () => {
    redis = await startRedis();
    proxy = await startRedisProxy(redis);
    system = await startProcesses({
      storeAddress: redis.url,
      count: 1,
      kinds: [{ GATEHOUSE_STORE: proxy.url }, { GATEHOUSE_ROLES: 'authorization-server' }],
      // It replaces a silent connection, and competes for the CPU with its proxy.
      imports: [SLOWER_STORE],
    });
  });
  after(async () => {
    await system?.stop();
    await proxy?.close();
    await redis?.stop();
  });

  const addresses = () => system.running().map(({ ports }) => `http://localhost:${ports.AUTH}`);
  const agree = () =>
    until('both processes to be ready with the same settings', async () =>
      (await Promise.all(addresses().map(readiness))).every((state) => state === 'same'),
    );

  for (const [what, action] of [
    ['before it runs the command', 'hold'],
    ['after it ran the command', 'hold reply'],
  ] as const)
    it(`between check and start, ${what} that starts it, changes all processes when it answers again`, async () => {
      await agree();
      const undo = changeSettings(system, { productName: `Frozen ${action}` });
      let scripts = 0;
      // The reload takes its lock with the first script, and its number with the second.
      const isStart = ({ name, kind }: Command) =>
        kind === 'settings-reload' && name.startsWith('eval') && ++scripts === 2;
      proxy.setRule((command) => (isStart(command) ? action : 'pass'));
      const reload = requestManagement(system, 'POST', '/settings/reload');
      await proxy.whenHeld();
      // The process replaces the silent connection. The held command arrives late.
      expect(await reload).to.deep.include({ changed: ['productName'], unanswered: [] });
      proxy.release();
      await agree();
      for (const address of addresses())
        expect(await titleOf(`${address}/`)).to.include(`Frozen ${action}`);
      const item = (await readAudit(system)).findLast(({ event }) => event === 'settings_reloaded');
      expect(item?.['arguments']).to.deep.include({ changed: ['productName'] });
      undo();
    });
});
