import { expect } from 'chai';
import { readAudit } from '../support/management-api.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { testResponses } from './responses.ts';
import { SOAK } from '../support/soak.ts';
import { testTokenRaces } from './token-races.ts';
import { testRevocationUnderLoad } from './revocation-under-load.ts';

const ROUNDS = SOAK ? 200 : 20;

describe('Three processes on one Redis under load', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  testRevocationUnderLoad(processes);
  testTokenRaces(processes, ROUNDS);

  it('no concurrent refresh counts as a replay', async () => {
    const events = (await readAudit(processes())).map(({ event }) => event);
    expect(events).to.include('connector_revoked');
    expect(events.filter((event) => event === 'refresh_replay')).to.deep.equal([]);
  });

  testResponses(processes);
});
