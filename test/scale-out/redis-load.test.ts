// Three processes on one Redis under load: requests that race, and what is revoked meanwhile.
import { expect } from 'chai';
import { readAudit } from '../support/management-api.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { nothingLeaks } from './discretion.ts';
import { SOAK } from '../support/scale-out/soak.ts';
import { racesAreFair } from './races.ts';
import { revocationHoldsUnderLoad } from './revocation-under-load.ts';

const ROUNDS = SOAK ? 200 : 20;

describe('Three processes on one Redis', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  revocationHoldsUnderLoad(processes);
  racesAreFair(processes, ROUNDS);

  it('take no refresh of all these for theft', async () => {
    const events = (await readAudit(processes())).map(({ event }) => event);
    expect(events).to.include('connector_revoked');
    expect(events.filter((event) => event === 'refresh_replay')).to.deep.equal([]);
  });

  nothingLeaks(processes);
});
