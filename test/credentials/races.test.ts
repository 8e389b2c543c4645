// Concurrent calls of one person in several processes, at a service that ends the family of a refresh token that is used again.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  type Connected,
  connectPerson,
  settingsFor,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { type Processes, useProcesses } from '../support/scale-out/processes.ts';
import { until } from '../support/until.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

const CALLS = 64;
const ROUNDS = SOAK ? 200 : 4;
const LIFETIME = 300;

describe('Calls of one person in four processes on one Redis', () => {
  let service: ProtectedServer | undefined;
  const running = () => {
    if (!service) throw new Error('the service runs only during tests');
    return service;
  };
  const processes = useProcesses(async () => {
    service = await startProtectedServer();
    return { store: 'redis', count: 4, inThisProcess: true, file: settingsFor(service.url) };
  });
  let ada: Connected;
  before(async function connect() {
    running().expiresIn = LIFETIME;
    const { link } = await createConnector(processes(), { name: 'Notes' });
    ada = await connectPerson({ system: processes(), service: running(), link, person: 'ada' });
    expect(textOf(await ada.call())).to.equal('ada');
  });
  after(() => service?.close());

  /** Returns how many refresh requests the calls led to. None of the calls fails. */
  async function race(): Promise<number> {
    running().tokenRequests.length = 0;
    const answers = await Promise.all(Array.from({ length: CALLS }, () => ada.call()));
    expect(answers.map(textOf)).to.deep.equal(answers.map(() => 'ada'));
    expect(running().hasReplay).to.equal(false);
    return running().tokenRequests.length;
  }

  it(`CRD-09 ${CALLS} calls after the service took the access token back lead to one refresh, and none fails, in ${ROUNDS} rounds`, async () => {
    const started = performance.now();
    for (let round = 0; round < ROUNDS; round += 1) {
      running().expire();
      expect(await race(), `round ${round}`).to.equal(1);
    }
    const seconds = Math.round((performance.now() - started) / 1000);
    recordSoak({
      what: `${ROUNDS} rounds of ${CALLS} calls with an access token that was taken back, in four processes on one Redis`,
      held: `${ROUNDS * CALLS} calls, ${ROUNDS} refreshes, no replay, ${seconds} s`,
    });
  }).timeout(60_000 + ROUNDS * 5000);

  it(`CRD-09 ${CALLS} calls with an expired access token lead to one refresh, and none fails`, async () => {
    await advance(processes(), LIFETIME + 1);
    running().expire();
    expect(await race()).to.equal(1);
    await processes().setClocks('restore');
  });
});

describe('A store that is lost after the service has rotated the refresh token', () => {
  const { system, service, connectAs } = usePersonalUpstream(undefined, { store: 'redis' });

  it('CRD-10 gets the new token when it is back, and the old one is never sent again', async () => {
    const ada = await connectAs('ada');
    expect(textOf(await ada.call())).to.equal('ada');
    service().expire();
    service().tokenRequests.length = 0;
    service().onRotation = () => {
      service().onRotation = () => undefined;
      system().signalStore('SIGSTOP');
    };
    const answered = ada.call();
    try {
      await until('the system to notice that the store is lost', async () => {
        const response = await fetch(`${system().auth}/readyz`);
        await response.body?.cancel();
        return response.status !== 200;
      });
    } finally {
      system().signalStore('SIGCONT');
    }
    await answered;
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests).to.have.length(1);
    service().expire();
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().hasReplay).to.equal(false);
  });
});

const advance = (processes: Processes, seconds: number) =>
  processes.setClocks({ advanceBy: seconds });
