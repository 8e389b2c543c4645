import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';
import { startPersistentRedis } from '../support/faults/persistent-redis.ts';
import { freePorts } from '../support/free-ports.ts';
import { nodeArguments } from '../support/node-arguments.ts';
import { startRedis } from '../support/redis-server.ts';
import { PATIENT_STORE } from '../support/scale-out/gatehouse-process.ts';
import { createDeployment, type Deployment, startDeployment } from '../support/system.ts';
import { until } from '../support/until.ts';

const IMPATIENT_STORE = join(import.meta.dirname, '../support/faults/impatient-store.ts');

/** Runs the server until it exits, which it does soon if it cannot open its store. */
async function run({ environment }: Deployment): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, nodeArguments(['start'], ['--import', IMPATIENT_STORE]), {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  process.off('exit', killAtExit);
  return { code, output };
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

describe('A starting process', () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  it('a process without a reachable store exits with one line of error and without listening', async () => {
    const [port = 0] = await freePorts(1);
    const deployment = await createDeployment({ storeAddress: `redis://127.0.0.1:${port}` });
    closers.push(deployment.release);
    const { code, output } = await run(deployment);
    expect(output).to.match(
      /^the store at 127\.0\.0\.1:\d+ cannot be opened: .*\(tried for 5 s\).*GATEHOUSE_STORE\n$/,
    );
    expect(code).to.equal(1);
    const { origins, management } = deployment.facts;
    for (const url of [...origins, management]) expect(await isListening(url)).to.equal(false);
  });

  it('a process that starts while Redis loads its data waits until Redis is ready', async () => {
    const redis = await startPersistentRedis();
    closers.push(redis.close);
    await redis.command('EVAL', "for i = 1, 20000 do redis.call('SET', 'filler:' .. i, i) end", 0);
    await redis.stop('SIGTERM');
    // The delay is in microseconds per key, about two seconds in all.
    const loaded = redis.start(['--key-load-delay', '100']);
    await until('Redis to be loading', async () => {
      const info = await redis.command('INFO', 'persistence').catch(() => '');
      return String(info).includes('loading:1');
    });
    const deployment = await createDeployment({ storeAddress: redis.url });
    closers.push(deployment.release);
    // Redis may load for longer than usual on a busy machine.
    const { open } = STORE_TIMEOUTS;
    STORE_TIMEOUTS.open = 40_000;
    closers.push(() => (STORE_TIMEOUTS.open = open));
    const started = startDeployment(deployment);
    expect(await Promise.race([loaded.then(() => 'Redis'), started])).to.equal('Redis');
    const system = await started;
    closers.push(system.stop);
    expect((await fetch(`${system.auth}/readyz`)).status).to.equal(200);
  });

  it('a process that gets SIGHUP while it opens its store goes on, and then reads the settings again', async () => {
    const redis = await startRedis();
    const proxy = createServer((client) => {
      child?.kill('SIGHUP');
      const upstream = connect(redis.port, '127.0.0.1');
      for (const socket of [client, upstream]) socket.on('error', () => socket.destroy());
      client.pipe(upstream).pipe(client);
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const { port } = proxy.address() as AddressInfo;
    const storeAddress = `redis://127.0.0.1:${port}`;
    const deployment = await createDeployment({ storeAddress });
    closers.push(
      () => redis.stop(),
      deployment.release,
      () => void proxy.close(),
    );
    const child = spawn(process.execPath, nodeArguments(['start'], ['--import', PATIENT_STORE]), {
      env: { ...deployment.environment, GATEHOUSE_LOG_LEVEL: 'info' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    closers.push(() => void child.kill('SIGKILL'));
    let output = '';
    child.stderr.on('data', (text) => (output += text));
    await until(
      'the settings to be read again',
      () => child.signalCode !== null || output.includes('were read again'),
    );
    expect(child.signalCode).to.equal(null);
  });
});
