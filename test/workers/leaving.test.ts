// How workers stop and leave, and what there is without them.
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { expect } from 'chai';
import { childrenOf } from '../support/child-processes.ts';
import { reloadSettings } from '../support/management-api.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { changeSettings } from '../support/settings-file.ts';
import { until } from '../support/until.ts';

/** Longer than what the supervisor gives them beside it. */
const DRAIN_SECONDS = 23;

describe('The drain of workers', () => {
  const system = useProcesses(async () => ({
    store: 'redis',
    count: 1,
    file: { workers: 2, drain: '1s' },
  }));

  it('is as long as the last reload says', async () => {
    changeSettings(system(), { drain: `${DRAIN_SECONDS}s` });
    await reloadSettings(system());
    const [supervisor] = system().running();
    const asked = performance.now();
    expect(await supervisor?.stop(), supervisor?.output()).to.equal(0);
    expect(performance.now() - asked).to.be.at.least(DRAIN_SECONDS * 1000);
  });
});

describe('Workers that leave', () => {
  const system = useProcesses(async () => ({
    store: 'redis',
    count: 1,
    settings: { GATEHOUSE_LOG_LEVEL: 'info' },
    file: { workers: 2 },
  }));

  it('have no successors whose settings have no workers', async () => {
    const [supervisor] = system().running();
    const before = childrenOf(supervisor?.pid ?? 0);
    const undo = changeSettings(system(), { workers: undefined });
    try {
      process.kill(supervisor?.pid ?? 0, 'SIGUSR2');
      const says = (text: string) => supervisor?.output().includes(text) === true;
      await until('the refusal', () => says('a new worker did not start'));
      expect(says('workers: given nothing')).to.equal(true);
      expect(childrenOf(supervisor?.pid ?? 0)).to.deep.equal(before);
    } finally {
      undo();
    }
  });

  it('are reported if they die before their last requests', async () => {
    const [supervisor] = system().running();
    const leaving = childrenOf(supervisor?.pid ?? 0);
    // Idle connections keep them.
    const agent = new Agent({ keepAlive: true });
    const options = { agent, port: supervisor?.ports.AUTH, path: '/jwks' };
    const asked = Array.from({ length: 4 }, async () => {
      const [response] = await once(get(options), 'response');
      await once(response.resume(), 'end');
    });
    await Promise.all(asked);
    process.kill(supervisor?.pid ?? 0, 'SIGUSR2');
    const says = (text: string) => supervisor?.output().includes(text) === true;
    await until('the lines of a worker to name it', () =>
      leaving.some((pid) => says(`"pid":${pid},"host":`)),
    );
    await until('the restart', () => says('the workers were restarted'));
    const [one = 0] = leaving;
    process.kill(one, 'SIGKILL');
    await until('the line', () => says('ended before its last requests'));
    agent.destroy();
  });
});

describe('A process without workers', () => {
  const system = useProcesses(async () => ({ store: 'redis', count: 1 }));

  it('goes on after SIGUSR2, and says that there is nothing to restart', async () => {
    const [one] = system().running();
    process.kill(one?.pid ?? 0, 'SIGUSR2');
    await until('the line', () => one?.output().includes('SIGUSR2 restarts workers') === true);
    expect(await one?.isReady()).to.equal(true);
  });
});
