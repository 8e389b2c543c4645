import { expect } from 'chai';
import { advanceClock, freezeClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { violations } from '../support/faults/invariants.ts';
import { type Fault, itSurvives, useFaultySystem } from '../support/faults/redis-faults.ts';
import { callTool } from '../support/mcp.ts';
import { until } from '../support/until.ts';

const CALLS_WITHOUT_STORE_SECONDS = 45;

const FAULTS: Fault[] = [
  {
    what: 'is unreachable',
    begin: ({ proxy }) => proxy.disconnect(),
    heal: ({ proxy }) => proxy.allowConnections(),
    works: [],
  },
  {
    what: 'does not reply on open connections',
    begin: ({ proxy }) => proxy.setRule(() => 'drop'),
    heal: ({ proxy }) => proxy.setRule(),
    works: [],
  },
];

describe('Clients of a Redis that they cannot reach', () => {
  const target = useFaultySystem();

  itSurvives(FAULTS, target);

  it(`calls succeed for ${CALLS_WITHOUT_STORE_SECONDS} s after Redis became unreachable, and then get 503`, async () => {
    freezeClock();
    const { system, proxy, connector, history } = target();
    const { accessToken } = await connect(system, connector);
    const call = () => callTool(connector.link, accessToken, 'club_overview');
    expect((await call()).status).to.equal(200);
    proxy.disconnect();
    advanceClock(CALLS_WITHOUT_STORE_SECONDS - 5);
    expect((await call()).status).to.equal(200);
    advanceClock(6);
    expect((await call()).status).to.equal(503);
    proxy.allowConnections();
    await until('calls to work', async () => (await call()).status === 200);
    expect(violations(history)).to.deep.equal([]);
  });
});
