// Starting while there is no store, or while it still loads: a process says what to do and ends, or waits and then works.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import { startPersistentRedis } from '../support/faults/persistent-redis.ts';
import { freePorts } from '../support/free-ports.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { startGatehouseProcess } from '../support/scale-out/gatehouse-process.ts';
import { createDeployment, type Deployment } from '../support/system.ts';
import { until } from '../store/condition.ts';

/** The whole life of a process that does not stay. */
async function run({ environment }: Deployment): Promise<{ code: number | null; said: string }> {
  const child = spawn(process.execPath, nodeArguments('main.ts'), {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  const [code] = await once(child, 'close');
  process.off('exit', killAtExit);
  return { code, said };
}

function isListening(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

describe('A process that starts', () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  it('where there is no store says so in one line, ends, and listens nowhere', async () => {
    const [port = 0] = await freePorts(1);
    const place = await createDeployment({ storeAddress: `redis://127.0.0.1:${port}` });
    closers.push(place.release);
    const { code, said } = await run(place);
    expect(said).to.match(/^the store at 127\.0\.0\.1:\d+ cannot be opened: .*GATEHOUSE_STORE\n$/);
    expect(code).to.equal(1);
    const { origins, management } = place.facts;
    for (const url of [...origins, management]) expect(await isListening(url)).to.equal(false);
  });

  it('while Redis loads its data is ready when that is done', async () => {
    const redis = await startPersistentRedis();
    closers.push(redis.close);
    await redis.command('EVAL', "for i = 1, 20000 do redis.call('SET', 'filler:' .. i, i) end", 0);
    await redis.stop('SIGTERM');
    // Microseconds for each of the keys: about two seconds in all.
    const loaded = redis.start(['--key-load-delay', '100']);
    await until('Redis loads', async () => {
      const info = await redis.command('INFO', 'persistence').catch(() => '');
      return String(info).includes('loading:1');
    });
    const place = await createDeployment({ storeAddress: redis.url });
    closers.push(place.release);
    const started = await startGatehouseProcess(place.environment);
    closers.push(started.kill);
    await loaded;
    expect(await started.isReady()).to.equal(true);
  });
});
