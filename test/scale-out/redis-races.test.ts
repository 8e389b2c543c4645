import { expect } from 'chai';
import { readAudit } from '../support/management-api.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { testDecisions } from './authorizations.ts';
import { ROTATION, testDpop } from './dpop.ts';
import { testResponses } from './responses.ts';
import { testRevocationUnderLoad } from './revocation-under-load.ts';
import { testTokenRaces } from './token-races.ts';
import { testUseLimits } from './use-limits.ts';

describe('Concurrent requests to three instances on one Redis', () => {
  const instances = useProcesses(() => ({
    store: 'redis',
    settings: ROTATION,
    inThisProcess: true,
  }));

  testDecisions(instances);
  testUseLimits(instances);
  testRevocationUnderLoad(instances);
  testTokenRaces(instances, {
    database: 'one Redis',
    exchanges: { rounds: 2, requests: 12 },
    refreshes: [
      { rounds: 4, requests: 2 },
      { rounds: 2, requests: 8 },
      { rounds: 1, requests: 50 },
    ],
  });
  testDpop(instances);
  testResponses(instances);

  describe('the audit log', () => {
    it('no concurrent refresh counts as a replay', async () => {
      const events = (await readAudit(instances())).map(({ event }) => event);
      expect(events).to.include('connector_revoked');
      expect(events.filter((event) => event === 'refresh_replay')).to.deep.equal([]);
    });
  });
});
